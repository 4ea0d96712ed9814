"""The list of dead letters under a filter and a search at once, and a requeue of exactly what it shows."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deadletters import filter_form, listing, lookup
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from sagas.models import Saga
from tests.deadletters.test_requeue_matching import NAME, confirm, listed, listed_in, many, page_of
from tests.factories import SagaFactory
from tests.support import rows
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = pytest.mark.django_db

MOST_QUERIES = 15


def page_listing(client: Client, given: dict[str, Any]) -> str:
    return client.get(rows.listing(NAME), given).content.decode()


def asked_about(client: Client, given: dict[str, Any]) -> list[int]:
    """The dead letters that a requeue of all that match would take, led to from the list."""
    found = re.search(r'href="(/admin/deadletters/deadletter/requeue-matching/[^"]*)"', page_listing(client, given))
    assert found
    return listed_in(client.get(found[1].replace("&amp;", "&")).content.decode())


def again_dead(letter: DeadLetter) -> DeadLetter:
    """The same event, dead once more after a requeue."""
    requeue([letter.pk], by=Operator(), reason="r")
    saga = rows.successor(letter)
    Saga.objects.filter(pk=saga.pk).update(status="InProgress")
    Saga.objects.filter(pk=saga.pk).update(status="DeadLettered", attempt_count=3, final_error_code="timeout")
    return DeadLetter.objects.create(
        saga=saga,
        event=letter.event,
        subscription=letter.subscription,
        final_error_code="timeout",
        failed_at=clock.now(),
        payload_snapshot="{}",
    )


def test_a_requeue_of_all_that_match_asks_about_exactly_what_the_search_and_the_filter_show(requeuer: Client):
    basket, other = rows.dead_letter("basket-77"), rows.dead_letter("basket-78")
    later = again_dead(basket)
    searched: dict[str, Any] = {"q": "basket-77"}

    assert listed(requeuer, **searched) == [later.pk, basket.pk]
    assert asked_about(requeuer, searched) == [later.pk]
    assert asked_about(requeuer, {**searched, "error_code": "timeout"}) == [later.pk]
    assert asked_about(requeuer, {**searched, "error_code": "basket-78"}) == []
    assert asked_about(requeuer, {"q": str(other.pk), "event_type": "order.created"}) == [other.pk]
    assert asked_about(requeuer, {"q": "no such"}) == []
    assert asked_about(requeuer, {}) == [other.pk, later.pk]


@pytest.mark.parametrize("name", ["event", "saga"])
def test_a_requeue_of_all_that_match_keeps_to_the_event_or_the_delivery_that_the_list_is_of(
    requeuer: Client, name: str
):
    wanted, _ = rows.dead_letter("one"), rows.dead_letter("two")
    given = {name: getattr(wanted, f"{name}_id")}

    assert listed(requeuer, **given) == asked_about(requeuer, given) == [wanted.pk]
    assert listed(requeuer, **given, error_code="two") == asked_about(requeuer, {**given, "error_code": "two"}) == []
    confirm(requeuer, given, "only this one")

    assert Requeue.objects.get().dead_letter_id == wanted.pk


def test_what_was_searched_for_is_all_that_is_requeued_and_the_trail_says_so(requeuer: Client):
    wanted = rows.dead_letter("basket-77")
    rows.dead_letter("basket-78")

    page = confirm(requeuer, {"q": "basket-77", "saga": wanted.saga_id}, "mended")

    assert "<strong>1</strong> dead letter is delivered anew" in page
    assert f"delivery {wanted.saga_id}, search basket-77" in page
    assert [record.dead_letter_id for record in Requeue.objects.all()] == [wanted.pk]
    entry = Entry.objects.get(action="deadletter.requeue_matching")
    assert json.loads(entry.details)["choice"] == {"saga_id": wanted.saga_id, "search": "basket-77"}


def test_a_filter_finds_what_the_search_names_however_much_has_died_since(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    for module, name in ((filter_form, "MOST_LISTED"), (listing, "MOST_LISTED"), (filter_form, "MOST_EXAMINED")):
        monkeypatch.setattr(module, name, 2)
    wanted = many(5)[0]

    for given in ({}, {"error_code": "timeout"}, {"requeued": "no"}, {"event_type": "order.created"}):
        assert listed(requeuer, q=str(wanted.event.uid), **given) == [wanted.pk]
        assert listed(requeuer, event=wanted.event_id, **given) == [wanted.pk]


def test_further_back_the_search_stays(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    for module, name in ((filter_form, "MOST_LISTED"), (listing, "MOST_LISTED"), (filter_form, "MOST_EXAMINED")):
        monkeypatch.setattr(module, name, 1)
    first = rows.dead_letter("wanted")
    second, third = again_dead(first), rows.dead_letter("other")
    query: Any = {"q": "wanted"}
    seen: list[list[int]] = []
    for _ in range(3):
        answer = requeuer.get(rows.listing(NAME), query)
        seen.append([letter.pk for letter in answer.context["cl"].result_list])
        older = re.search(r'href="\?([^"]*until=[^"]*)"', answer.content.decode())
        if older is None:
            break
        query = dict(parse_qsl(older[1].replace("&amp;", "&")))

    assert query["q"] == "wanted"
    assert seen == [[second.pk], [first.pk]]
    assert third.pk not in seen[0]


def test_a_place_beyond_all_numbers_is_explained(requeuer: Client):
    answer = requeuer.get(rows.listing(NAME), {"until": "2026-01-01T00:00Z", "upto": str(2**63 - 1)})

    assert answer.status_code == 200
    assert list(answer.context["cl"].result_list) == []


def test_the_filter_keeps_the_search_and_shows_what_else_narrows_the_list(requeuer: Client):
    letter = rows.dead_letter("basket-77")

    plain = page_listing(requeuer, {})
    page = page_listing(requeuer, {"q": "basket-77", "event": letter.event_id})

    assert '<input type="hidden" name="q" value="basket-77">' in page
    assert "Event number" in page
    assert re.search(rf'name="event" value="{letter.event_id}"', page)
    assert "Requeue all that match" in page
    for words in ("Event number", "Delivery number", 'type="hidden" name="q"', "Requeue all that match"):
        assert words not in plain


def test_a_search_that_names_more_than_is_looked_at_says_so(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lookup, "MOST_FOUND", 1)
    first = rows.dead_letter("wanted")
    second = SagaFactory.create(event=first.event, status="DeadLettered", attempt_count=3)
    newest = DeadLetter.objects.create(
        saga=second,
        event=first.event,
        subscription=second.subscription,
        final_error_code="timeout",
        failed_at=clock.now(),
        payload_snapshot="{}",
    )
    said = "The search names more than can be looked at"

    assert said in page_listing(requeuer, {"q": "wanted"})
    assert listed(requeuer, q="wanted") == [newest.pk]
    asked = requeuer.get(page_of({"q": "wanted"})).content.decode()
    assert said in asked
    assert listed_in(asked) == [newest.pk]
    assert "There may be more that match" in confirm(requeuer, {"q": "wanted"}, "r")
    assert said not in page_listing(requeuer, {"event": first.event_id})
    assert said not in page_listing(requeuer, {"q": str(newest.pk)})


@pytest.mark.parametrize("given", [{"q": "1"}, {"q": "wanted", "event_type": "order.created", "requeued": "no"}])
def test_filter_and_search_together_ask_a_bounded_number_of_questions(requeuer: Client, given: dict[str, Any]):
    for name in ("wanted", "other"):
        rows.dead_letter(name)

    for address in (rows.listing(NAME), page_of({})):
        with CaptureQueriesContext(connection) as queries:
            assert requeuer.get(address, given).status_code == 200
        assert len(queries) <= MOST_QUERIES
