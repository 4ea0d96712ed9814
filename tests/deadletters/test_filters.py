"""The filter and the search of the list of dead letters."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from deadletters import admin, filters
from deadletters.forms import FilterForm
from deadletters.models import Requeue
from deadletters.requeue import requeue
from tests.factories import SagaFactory
from tests.support import legal_steps, rows
from webhookhub.db import clock
from webhookhub.terminal import Operator

from .helpers import (
    NAME,
    bulk_url,
    confirm,
    dead_letters,
    listed,
    listed_pages,
    requeued_and_dead_again,
    run_in,
    shown_in,
)

pytestmark = pytest.mark.django_db

MAX_QUERIES = 16


def list_page(client: Client, query: dict[str, Any]) -> str:
    return client.get(rows.listing(NAME), query).content.decode()


def offered(client: Client, query: dict[str, Any]) -> list[int]:
    """The dead letters that the page behind "Requeue all that match" shows."""
    link = re.search(r'href="(/admin/deadletters/deadletter/requeue-matching/[^"]*)"', list_page(client, query))
    assert link
    return shown_in(client.get(link[1].replace("&amp;", "&")).content.decode())


def test_each_condition_narrows_the_list(requeuer: Client):
    one, two = rows.dead_letter("http_500"), rows.dead_letter("timeout")
    requeue([one.pk], by=Operator(), reason="r")
    minute = timedelta(minutes=1)

    def text(time: Any) -> str:
        return f"{time:%Y-%m-%d %H:%M:%S}"

    assert listed(requeuer) == [two.pk, one.pk]
    assert listed(requeuer, error_code="timeout") == [two.pk]
    assert listed(requeuer, subscription=one.subscription_id) == [one.pk]
    assert listed(requeuer, event_type="order.created") == [two.pk, one.pk]
    assert listed(requeuer, event_type="order.other") == []
    assert listed(requeuer, requeued="no") == [two.pk]
    assert listed(requeuer, requeued="yes") == [one.pk]
    assert listed(requeuer, since=text(one.failed_at - minute)) == [two.pk, one.pk]
    assert listed(requeuer, since=text(two.failed_at + minute)) == []
    assert listed(requeuer, until=text(one.failed_at - minute)) == []
    everything = {"error_code": "timeout", "subscription": two.subscription_id, "event_type": "order.created"}
    assert listed(requeuer, **everything, requeued="no", until=text(two.failed_at + minute)) == [two.pk]


@pytest.mark.parametrize("typed", ["http_404", "Http_404", "404", " 404 "])
def test_an_error_code_can_be_typed_in_several_ways(typed: str):
    form = FilterForm({"error_code": typed})

    assert form.is_valid()
    assert form.letter_filter().error_code == "http_404"


def test_the_list_and_the_bulk_requeue_find_an_error_code_by_its_status(requeuer: Client):
    missing, late = rows.dead_letter("http_404"), rows.dead_letter("timeout")

    assert listed(requeuer, error_code="404") == [missing.pk]
    assert shown_in(requeuer.get(bulk_url({"error_code": "404"})).content.decode()) == [missing.pk]
    assert listed(requeuer, error_code="TimeOut") == [late.pk]
    assert listed(requeuer, error_code="40") == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"subscription": "x"}, "Enter a whole number"),
        ({"subscription": "0"}, "Enter a whole number, such as 12"),
        ({"subscription": "9" * 20}, "This number is too large."),
        ({"event": "x"}, "Enter a whole number, such as 12"),
        ({"saga": "9" * 20}, "This number is too large."),
        ({"event_type": "a b"}, "letters, digits, dots"),
        ({"since": "yesterday"}, "Enter a date and time such as"),
        ({"since": "2026-02-02 00:00", "until": "2026-01-01 00:00"}, "is before"),
        ({"requeued": "perhaps"}, "not one of the available choices"),
        ({"error_code": "x" * 101}, "at most 100 characters"),
        ({"error_code": "a\0b"}, "Null characters are not allowed"),
    ],
)
def test_an_invalid_value_is_explained(query: dict[str, str], message: str):
    [[error]] = FilterForm(query).errors.values()

    assert message in error


@pytest.mark.parametrize("query", [{"subscription": "x"}, {"event": "x"}, {"error_code": "a\0b"}])
def test_an_invalid_filter_selects_nothing(requeuer: Client, query: dict[str, str]):
    rows.dead_letter()

    response = requeuer.get(rows.listing(NAME), query)

    assert "The filter is not valid" in response.content.decode()
    [[error]] = FilterForm(query).errors.values()
    assert escape(error) in response.content.decode()
    assert list(response.context["cl"].result_list) == []
    page = requeuer.get(bulk_url(query)).content.decode()
    assert "Nothing was requeued" in page
    assert run_in(page) is None


def test_the_list_links_to_older_pages(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "WINDOW", 2)
    letters = dead_letters(5)

    pages = listed_pages(requeuer, requeued="no")

    assert len(pages) > 1
    assert [pk for page in pages for pk in page] == [letter.pk for letter in reversed(letters)]


@pytest.mark.parametrize("query", [{"error_code": "timeout"}, {"requeued": "no"}])
def test_the_pages_go_past_dead_letters_that_failed_at_the_same_time(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch, query: dict[str, Any]
):
    monkeypatch.setattr(admin, "MAX_LISTED", 2)
    monkeypatch.setattr(admin, "WINDOW", 3)
    letters, now = dead_letters(1), clock.now()
    sagas: list[Any] = [SagaFactory(status="DeadLettered", attempt_count=3) for _ in range(7)]
    letters += [legal_steps.dead_letter(saga, now, "timeout") for saga in sagas]

    pages = listed_pages(requeuer, **query)

    assert [pk for page in pages for pk in page] == [letter.pk for letter in reversed(letters)]


def test_the_bulk_requeue_offers_what_the_search_and_the_filter_show(requeuer: Client):
    basket, other = rows.dead_letter("basket-77"), rows.dead_letter("basket-78")
    later = requeued_and_dead_again(basket)
    query: dict[str, Any] = {"q": "basket-77"}

    assert listed(requeuer, **query) == [later.pk, basket.pk]
    assert offered(requeuer, query) == [later.pk]
    assert offered(requeuer, {**query, "error_code": "timeout"}) == [later.pk]
    assert offered(requeuer, {**query, "error_code": "basket-78"}) == []
    assert offered(requeuer, {"q": str(other.pk), "event_type": "order.created"}) == [other.pk]
    assert offered(requeuer, {"q": "no such"}) == []
    assert offered(requeuer, {"requeued": "yes"}) == []
    assert offered(requeuer, {}) == [other.pk, later.pk]


@pytest.mark.parametrize("name", ["event", "saga"])
def test_the_bulk_requeue_keeps_the_event_or_the_delivery_of_the_list(requeuer: Client, name: str):
    wanted, _ = rows.dead_letter("one"), rows.dead_letter("two")
    query = {name: getattr(wanted, f"{name}_id")}

    assert listed(requeuer, **query) == offered(requeuer, query) == [wanted.pk]
    assert listed(requeuer, **query, error_code="two") == offered(requeuer, {**query, "error_code": "two"}) == []
    confirm(requeuer, query, "only this one")

    assert Requeue.objects.get().dead_letter_id == wanted.pk


def test_a_search_finds_old_dead_letters_beyond_the_window(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "MAX_LISTED", 2)
    monkeypatch.setattr(admin, "WINDOW", 2)
    wanted = dead_letters(5)[0]

    for query in ({}, {"error_code": "timeout"}, {"requeued": "no"}, {"event_type": "order.created"}):
        assert listed(requeuer, q=str(wanted.event.uid), **query) == [wanted.pk]
        assert listed(requeuer, event=wanted.event_id, **query) == [wanted.pk]


def test_older_pages_keep_the_search(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "MAX_LISTED", 1)
    first = rows.dead_letter("wanted")
    second = requeued_and_dead_again(first)
    rows.dead_letter("other")

    assert listed_pages(requeuer, q="wanted") == [[second.pk], [first.pk]]


def test_the_largest_position_is_accepted(requeuer: Client):
    assert listed(requeuer, until="2026-01-01T00:00Z", before_id=str(2**63 - 1)) == []


def test_the_filter_form_keeps_the_search_and_shows_linked_conditions(requeuer: Client):
    letter = rows.dead_letter("basket-77")

    plain = list_page(requeuer, {})
    page = list_page(requeuer, {"q": "basket-77", "event": letter.event_id})

    assert '<input type="hidden" name="q" value="basket-77">' in page
    assert "Event number" in page
    assert re.search(rf'name="event" value="{letter.event_id}"', page)
    assert "Requeue all that match" in page
    for text in ("Event number", "Delivery number", 'type="hidden" name="q"', "Requeue all that match"):
        assert text not in plain


def test_a_search_with_too_many_results_says_so(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filters, "MAX_RESULTS", 1)
    first = rows.dead_letter("wanted")
    second: Any = SagaFactory(event=first.event, status="DeadLettered", attempt_count=3)
    newest = legal_steps.dead_letter(second, code="timeout")
    message = "The search finds too many dead letters"

    assert message in list_page(requeuer, {"q": "wanted"})
    assert listed(requeuer, q="wanted") == [newest.pk]
    page = requeuer.get(bulk_url({"q": "wanted"})).content.decode()
    assert message in page
    assert shown_in(page) == [newest.pk]
    assert "There may be more that match" in confirm(requeuer, {"q": "wanted"}, "r")
    assert message not in list_page(requeuer, {"event": first.event_id})
    assert message not in list_page(requeuer, {"q": str(newest.pk)})


@pytest.mark.parametrize("query", [{"q": "1"}, {"q": "wanted", "event_type": "order.created", "requeued": "no"}])
def test_the_number_of_queries_is_bounded(requeuer: Client, query: dict[str, Any]):
    for name in ("wanted", "other"):
        rows.dead_letter(name)

    for url in (rows.listing(NAME), bulk_url({})):
        with CaptureQueriesContext(connection) as queries:
            assert requeuer.get(url, query).status_code == 200
        assert len(queries) <= MAX_QUERIES
