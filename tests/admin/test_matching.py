"""Choosing dead letters by a filter, and requeueing all that match, portion by portion."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from deadletters import filters, matching
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from sagas.models import Saga
from tests.admin import rows
from tests.factories import SagaFactory
from trail import actions
from trail.models import Entry
from webhookhub.console.terminal import Operator
from webhookhub.db import clock

pytestmark = pytest.mark.django_db

NAME = "deadletters_deadletter"


def listed(client: Client, **given: Any) -> list[int]:
    answer = client.get(rows.listing(NAME), given)
    assert answer.status_code == 200
    return [letter.pk for letter in answer.context["cl"].result_list]


def page_of(given: dict[str, Any]) -> str:
    return reverse("admin:deadletters_deadletter_requeue_matching") + f"?{urlencode(given)}"


def many(count: int, code: str = "timeout") -> list[DeadLetter]:
    """Dead letters of one subscription, a second apart, the oldest first."""
    first = rows.dead_letter(code)
    now, letters = clock.now(), [first]
    for number in range(1, count):
        dead = SagaFactory.create(
            subscription=first.subscription, status="DeadLettered", attempt_count=3, final_error_code=code
        )
        letters.append(
            DeadLetter.objects.create(
                saga=dead,
                event=dead.event,
                subscription=first.subscription,
                final_error_code=code,
                failed_at=now + timedelta(seconds=number),
                payload_snapshot="{}",
            )
        )
    return letters


def test_each_filter_narrows_the_list_and_all_of_them_together(requeuer: Client):
    one, two = rows.dead_letter("http_500"), rows.dead_letter("timeout")
    requeue([one.pk], by=Operator(), reason="r")
    minute = timedelta(minutes=1)

    def moment(value: Any) -> str:
        return f"{value:%Y-%m-%d %H:%M:%S}"

    assert listed(requeuer) == [two.pk, one.pk]
    assert listed(requeuer, error_code="timeout") == [two.pk]
    assert listed(requeuer, subscription=one.subscription_id) == [one.pk]
    assert listed(requeuer, event_type="order.created") == [two.pk, one.pk]
    assert listed(requeuer, event_type="order.other") == []
    assert listed(requeuer, requeued="no") == [two.pk]
    assert listed(requeuer, requeued="yes") == [one.pk]
    assert listed(requeuer, since=moment(one.failed_at - minute)) == [two.pk, one.pk]
    assert listed(requeuer, since=moment(two.failed_at + minute)) == []
    assert listed(requeuer, until=moment(one.failed_at - minute)) == []
    everything = {"error_code": "timeout", "subscription": two.subscription_id, "event_type": "order.created"}
    assert listed(requeuer, **everything, requeued="no", until=moment(two.failed_at + minute)) == [two.pk]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscription": "x"}, "whole number"),
        ({"subscription": "9" * 30}, "less than or equal"),
        ({"event_type": "a b"}, "letters, digits, dots"),
        ({"since": "yesterday"}, "Write the time as"),
        ({"since": "0001-01-01 00:00"}, "Write the time as"),
        ({"since": "2026-02-02 00:00", "until": "2026-01-01 00:00"}, "lies before"),
        ({"requeued": "perhaps"}, "not one of the available choices"),
        ({"error_code": "x" * 101}, "at most 100 characters"),
        ({"error_code": "a\0b"}, "Null characters are not allowed"),
    ],
)
def test_a_filter_that_cannot_be_read_is_explained_and_chooses_nothing(
    requeuer: Client, given: dict[str, str], said: str
):
    rows.dead_letter()

    page = requeuer.get(rows.listing(NAME), given).content.decode()

    assert said in page
    assert "The filter cannot be read" in page
    assert listed(requeuer, **given) == []
    assert "Nothing has been requeued" in requeuer.get(page_of(given)).content.decode()
    requeuer.post(page_of(given), {"limit": 5, "reason": "r"})
    assert not Requeue.objects.exists()


def test_the_list_leads_further_back_when_not_everything_was_looked_at(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(filters, "MOST_EXAMINED", 2)
    letters = many(5)
    seen = set()
    query: dict[str, Any] = {"requeued": "no"}
    for _ in range(5):
        answer = requeuer.get(rows.listing(NAME), query)
        seen |= {letter.pk for letter in answer.context["cl"].result_list}
        older = re.search(r'href="\?([^"]*until=[^"]*)"', answer.content.decode())
        if older is None:
            break
        query = dict(pair.split("=") for pair in older[1].replace("&amp;", "&").split("&"))
        query = {name: value.replace("+", " ").replace("%3A", ":") for name, value in query.items()}

    assert seen == {letter.pk for letter in letters}


def test_an_empty_list_says_what_to_do_next(requeuer: Client):
    assert "There are no dead letters" in requeuer.get(rows.listing(NAME)).content.decode()
    assert "Clear the filter" in requeuer.get(rows.listing(NAME), {"error_code": "x"}).content.decode()


def test_the_page_says_how_many_to_whom_and_shows_some_and_writes_nothing(requeuer: Client):
    letters = many(12)
    other = rows.dead_letter("http_500")

    page = requeuer.get(page_of({"error_code": "timeout"})).content.decode()

    assert "<strong>12</strong> dead letters match" in page
    assert str(letters[0].subscription) in page.replace("→", "→")
    assert str(other.subscription) not in page
    assert page.count(f"/admin/deadletters/deadletter/{letters[-1].pk}/change/") == 1
    assert not Requeue.objects.exists()


def test_all_that_match_are_requeued_portion_by_portion_with_a_report(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(matching, "PORTION", 5)
    letters = many(12)
    other = rows.dead_letter("http_500")

    page = requeuer.post(page_of({"error_code": "timeout"}), {"limit": 100, "reason": "mended"}).content.decode()
    counts = [Requeue.objects.count()]
    while sealed := re.search(r'name="run" value="([^"]+)"', page):
        assert 'max="12"' in page
        page = requeuer.post(page_of({}), {"run": sealed[1]}).content.decode()
        counts.append(Requeue.objects.count())

    assert counts == [5, 10, 12]
    assert "<strong>12</strong> dead letters are delivered anew" in page
    assert "none that matches is left" in page
    assert {record.dead_letter_id for record in Requeue.objects.all()} == {letter.pk for letter in letters}
    assert set(Requeue.objects.values_list("requested_by", "reason")) == {("requeuer", "mended")}
    assert not Saga.objects.filter(event=other.event_id, generation=1).exists()
    assert set(Entry.objects.filter(action=actions.REQUEUE_MATCHING).values_list("actor", "via", "reason")) == {
        ("requeuer", "console", "mended")
    }
    again = requeuer.get(page_of({"error_code": "timeout"})).content.decode()
    assert "they have been requeued already" in again


def test_no_more_than_asked_for_are_requeued_the_longest_dead_first(requeuer: Client):
    letters = many(5)

    page = requeuer.post(page_of({}), {"limit": 2, "reason": "try two"}).content.decode()

    assert [record.dead_letter_id for record in Requeue.objects.order_by("id")] == [each.pk for each in letters[:2]]
    assert "There are more that match" in page


def test_a_whole_window_of_the_table_is_requeued(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    """A thousand rows at once are more than some statements take."""
    monkeypatch.setattr(matching, "PORTION", 1100)
    first = rows.dead_letter("timeout")
    event, saga, numbers = first.event, first.saga, range(10_000, 11_050)
    type(event).objects.bulk_create(
        type(event)(id=number, event_type="order.created", source="tests", payload="{}") for number in numbers
    )
    given = {"subscription": first.subscription, "max_retry_limit": 1, "base_delay": saga.base_delay}
    Saga.objects.bulk_create(
        Saga(id=number, event_id=number, status="DeadLettered", attempt_count=1, **given) for number in numbers
    )
    DeadLetter.objects.bulk_create(
        DeadLetter(
            saga_id=number,
            event_id=number,
            subscription=first.subscription,
            final_error_code="timeout",
            failed_at=first.failed_at,
            payload_snapshot="{}",
        )
        for number in numbers
    )

    assert "<strong>1051</strong>" in requeuer.get(page_of({"requeued": "no"})).content.decode()
    page = requeuer.post(page_of({}), {"limit": 5000, "reason": "r"}).content.decode()

    assert "<strong>1051</strong> dead letters are delivered anew" in page
    assert Saga.objects.filter(generation=1).count() == 1051


@pytest.mark.parametrize(
    "given", [{"limit": "0"}, {"limit": "5001"}, {"limit": "x"}, {"reason": ""}, {"reason": "a\0"}]
)
def test_a_limit_and_a_reason_are_required(requeuer: Client, given: dict[str, str]):
    many(2)

    page = requeuer.post(page_of({}), {"limit": "2", "reason": "r", **given}).content.decode()

    assert "Nothing has been requeued" in page
    assert not Requeue.objects.exists()


def test_an_invisible_reason_is_refused_in_the_form(requeuer: Client):
    many(2)

    page = requeuer.post(page_of({}), {"limit": 2, "reason": "a‮b"}).content.decode()

    assert "printable" in page
    assert not Requeue.objects.exists()


@pytest.mark.parametrize(("group", "may"), [("support", False), ("auditors", False), ("operations", True)])
def test_only_those_who_may_requeue_many_see_it_and_can_do_it(member: Callable[[str], Client], group: str, may: bool):
    many(3)
    client = member(group)

    assert ("Requeue all" in client.get(rows.listing(NAME)).content.decode()) is may
    assert client.get(page_of({})).status_code == (200 if may else 403)
    assert client.post(page_of({}), {"limit": 2, "reason": "r"}).status_code == (200 if may else 403)
    assert Requeue.objects.count() == (2 if may else 0)


def test_nobody_goes_on_with_anothers_run_or_a_forged_one(
    requeuer: Client, superuser: Client, viewer: Client, monkeypatch
):
    monkeypatch.setattr(matching, "PORTION", 1)
    many(3)
    page = requeuer.post(page_of({}), {"limit": 3, "reason": "r"}).content.decode()
    sealed = re.search(r'name="run" value="([^"]+)"', page)
    assert sealed

    assert superuser.post(page_of({}), {"run": sealed[1]}).status_code == 403
    assert viewer.post(page_of({}), {"run": sealed[1]}).status_code == 403
    assert requeuer.post(page_of({}), {"run": sealed[1][:-2]}).status_code == 400
    assert Requeue.objects.count() == 1
    # The same portion again meets what it has done, and passes it over.
    for _ in range(2):
        requeuer.post(page_of({}), {"run": sealed[1]})
    assert Saga.objects.filter(generation=1).count() == Requeue.objects.count() == 3


def test_a_requeued_letter_says_as_what_instead_of_offering_it_again(requeuer: Client):
    letter = rows.dead_letter()
    button = f'?ids={letter.pk}">Requeue</a>'
    assert button in requeuer.get(rows.change(NAME, letter.pk)).content.decode()

    requeue([letter.pk], by=Operator(), reason="r")

    page = requeuer.get(rows.change(NAME, letter.pk)).content.decode()
    assert button not in page
    assert "Requeued already, as <a" in page
    assert rows.change("sagas_saga", rows.successor(letter).pk) in page
