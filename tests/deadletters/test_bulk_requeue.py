"""Requeueing all dead letters that match a filter in the console: confirmation, portions, progress."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from urllib.parse import parse_qsl

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from deadletters import bulk_requeue, views
from deadletters.filters import DeadLetterFilter
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import requeue
from deadletters.views import Run
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.support import rows
from webhookhub import signed_state
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock
from webhookhub.terminal import Operator

from .helpers import NAME, bulk_url, confirm, dead_letter_before_its_delivery_ends, dead_letters, run_in, shown_in

pytestmark = pytest.mark.django_db

ShowRecipients = Callable[[Client, list[DeadLetter]], str]


def requeued_ids() -> set[int]:
    return set(Requeue.objects.values_list("dead_letter_id", flat=True))


def ids_of(letters: list[DeadLetter]) -> list[int]:
    return [letter.pk for letter in letters]


def test_the_confirmation_shows_count_recipients_and_sample_and_writes_nothing(requeuer: Client):
    letters = dead_letters(12)
    other = rows.dead_letter("http_500")

    page = requeuer.get(bulk_url({"error_code": "timeout"})).content.decode()

    assert "<strong>12</strong> dead letters match" in page
    assert str(letters[0].subscription) in page
    assert str(other.subscription) not in page
    assert shown_in(page) == ids_of(letters[: bulk_requeue.SAMPLE])
    assert not Requeue.objects.exists()
    assert not Entry.objects.filter(object_type="deadletter").exists()


def test_all_matching_dead_letters_are_requeued_in_portions(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "PORTION", 5)
    letters = dead_letters(12)
    other = rows.dead_letter("http_500")

    page = confirm(requeuer, {"error_code": "timeout"}, "fixed")
    counts = [Requeue.objects.count()]
    while run := run_in(page):
        assert 'max="12"' in page
        page = requeuer.post(bulk_url({}), {"run": run}).content.decode()
        counts.append(Requeue.objects.count())

    assert counts == [5, 10, 12]
    assert "<strong>12</strong> dead letters requeued" in page
    assert "There may be more" not in page
    assert 'id="repeated"' not in page
    assert requeued_ids() == set(ids_of(letters))
    assert set(Requeue.objects.values_list("requested_by", "reason")) == {("requeuer", "fixed")}
    assert not Saga.objects.filter(event=other.event_id, generation=1).exists()
    again = requeuer.get(bulk_url({"error_code": "timeout"})).content.decode()
    assert "all were already requeued" in again


def test_the_audit_log_has_the_filter_and_the_search(requeuer: Client):
    wanted = rows.dead_letter("basket-77")
    rows.dead_letter("basket-78")

    page = confirm(requeuer, {"q": "basket-77", "saga": wanted.saga_id}, "fixed")

    assert "<strong>1</strong> dead letter requeued" in page
    assert f"delivery: {wanted.saga_id}, search: basket-77" in page
    assert requeued_ids() == {wanted.pk}
    entry = Entry.objects.get(action="deadletter.requeue_matching")
    assert json.loads(entry.details)["filter"] == {"saga_id": wanted.saga_id, "search": "basket-77"}


def test_a_portion_that_is_sent_twice_requeues_nothing_twice(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    """A double click, a reload, or the back button."""
    monkeypatch.setattr(views, "PORTION", 2)
    letters = dead_letters(9)
    run = run_in(requeuer.get(bulk_url({"limit": 4})).content.decode())
    first = requeuer.post(bulk_url({}), {"run": run, "reason": "r"}).content.decode()

    again = requeuer.post(bulk_url({}), {"run": run, "reason": "r"}).content.decode()

    assert 'id="repeated"' in again
    assert 'id="repeated"' not in first
    assert "<strong>2</strong> dead letters requeued" in again
    second = run_in(first)
    for page in (first, again, first):
        done = requeuer.post(bulk_url({}), {"run": run_in(page)}).content.decode()
        assert "<strong>4</strong> dead letters requeued" in done
        assert 'id="finished"' in done
    requeuer.post(bulk_url({}), {"run": second})
    requeuer.post(bulk_url({}), {"run": run, "reason": "r"})
    assert requeued_ids() == set(ids_of(letters[:4]))
    assert Saga.objects.filter(generation=1).count() == 4


def test_every_page_keeps_the_filter_and_links_back_to_the_list(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "PORTION", 2)
    dead_letters(7)
    query = {"error_code": "timeout", "limit": 5}
    back = f'href="{rows.listing(NAME)}?error_code=timeout"'
    assert requeuer.get(bulk_url(query)).content.decode().count(back) == 2

    page = confirm(requeuer, query, "fixed")
    while run := run_in(page):
        assert page.count(back) == 2
        [form] = re.findall(r"<form[^>]*data-auto-submit[^>]*>", page)
        assert "action" not in form  # sent to its own URL
        page = requeuer.post(bulk_url(query), {"run": run}).content.decode()

    assert 'id="finished"' in page
    assert page.count(back) == 1
    [again] = re.findall(r'href="([^"]*)">Requeue more', page)
    assert again.replace("&amp;", "&") == bulk_url(query)


def test_a_login_in_between_returns_to_the_confirmation(requeuer: Client):
    dead_letters(2)
    query = {"error_code": "timeout", "limit": 5}
    run = run_in(requeuer.get(bulk_url(query)).content.decode())
    requeuer.logout()

    response = requeuer.post(bulk_url(query), {"run": run, "reason": "r"})

    assert response.status_code == 302
    assert dict(parse_qsl(response["Location"].partition("?")[2]))["next"] == bulk_url(query)
    assert not Requeue.objects.exists()


def test_only_the_dead_letters_that_were_shown_are_requeued(requeuer: Client):
    letters = dead_letters(4)
    run = run_in(requeuer.get(bulk_url({"limit": 3})).content.decode())
    rows.dead_letter("later")
    requeue([letters[1].pk], by=Operator(), reason="mine")

    page = requeuer.post(bulk_url({}), {"run": run, "reason": "r"}).content.decode()

    assert "<strong>2</strong> dead letters requeued" in page
    assert "1 was requeued by someone else in the meantime" in page
    assert requeued_ids() == set(ids_of(letters[:3]))
    assert Requeue.objects.filter(reason="r").count() == 2


def test_the_limit_takes_the_oldest_failures_first(requeuer: Client):
    letters = dead_letters(5)
    page = requeuer.get(bulk_url({"limit": 2})).content.decode()
    assert "<strong>2</strong> dead letters match" in page
    assert "There may be more" in page
    assert shown_in(page) == ids_of(letters[:2])

    page = confirm(requeuer, {"limit": 2}, "try two")

    assert requeued_ids() == set(ids_of(letters[:2]))
    assert "There may be more that match" in page


def test_of_two_who_confirm_the_same_only_the_first_requeues(requeuer: Client, superuser: Client):
    letters = dead_letters(3)
    runs = {client: run_in(client.get(bulk_url({})).content.decode()) for client in (requeuer, superuser)}

    first, second = (
        client.post(bulk_url({}), {"run": run, "reason": "fixed"}).content.decode() for client, run in runs.items()
    )

    assert "<strong>3</strong> dead letters requeued." in first
    assert 'id="skipped"' not in first
    assert "<strong>0</strong> dead letters requeued." in second
    assert "3 were requeued by someone else in the meantime." in second
    assert "New deliveries" not in second
    assert Requeue.objects.count() == len(letters)
    assert [entry.actor for entry in Entry.objects.filter(object_type="deadletter")] == ["requeuer"]


def test_requeued_dead_letters_are_neither_counted_nor_shown(requeuer: Client):
    letters = dead_letters(5)
    requeue([letters[0].pk, letters[2].pk], by=Operator(), reason="r")

    page = requeuer.get(bulk_url({})).content.decode()

    assert "<strong>3</strong> dead letters match" in page
    assert shown_in(page) == [letters[1].pk, letters[3].pk, letters[4].pk]


def test_a_search_that_stops_early_links_to_later_failures(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk_requeue, "WINDOW", 2)
    monkeypatch.setattr(bulk_requeue, "MAX_EXAMINED", 2)
    letters = dead_letters(6)
    requeue(ids_of(letters[:3]), by=Operator(), reason="r")
    url: str | None = bulk_url({"error_code": "timeout"})
    seen: list[int] = []
    pages = []
    while url:
        pages.append(requeuer.get(url).content.decode())
        seen += [pk for pk in shown_in(pages[-1]) if pk not in seen]
        link = re.search(r'id="next" href="(\?[^"]*)"', pages[-1])
        url = link and bulk_url({}).partition("?")[0] + link[1].replace("&amp;", "&")

    assert "No dead letters in the searched range match this filter." in pages[0]
    assert seen == ids_of(letters[3:])


@pytest.mark.parametrize(
    "letter_filter",
    [DeadLetterFilter(), DeadLetterFilter(error_code="timeout"), DeadLetterFilter(event_type="order.created")],
)
def test_every_window_size_finds_each_pending_dead_letter_once(
    letter_filter: DeadLetterFilter, monkeypatch: pytest.MonkeyPatch
):
    letters = dead_letters(11)
    done = {letters[0].pk, letters[1].pk, letters[5].pk}
    requeue(list(done), by=Operator(), reason="r")
    pending = [letter.pk for letter in letters if letter.pk not in done]

    for window, windows, limit in product((1, 3, 4, 10), (1, 2), (1, 3)):
        monkeypatch.setattr(bulk_requeue, "WINDOW", window)
        monkeypatch.setattr(bulk_requeue, "MAX_EXAMINED", window * windows)
        found: list[int] = []
        cursor = None
        while True:
            selection = bulk_requeue.preview(letter_filter, cursor, limit)
            assert len(selection.letters) <= limit
            found += ids_of(selection.letters)
            cursor = selection.next
            if cursor is None:
                break
        assert found == pending, (window, windows, limit)


def test_more_than_a_window_is_requeued_in_one_portion(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    """Some statements cannot take a thousand rows."""
    monkeypatch.setattr(views, "PORTION", 1100)
    first = rows.dead_letter("timeout")
    event, saga, ids = first.event, first.saga, range(10_000, 11_050)
    type(event).objects.bulk_create(
        type(event)(id=pk, event_type="order.created", source="tests", payload="{}") for pk in ids
    )
    values = {"subscription": first.subscription, "max_retry_limit": 1, "base_delay": saga.base_delay}
    Saga.objects.bulk_create(Saga(id=pk, event_id=pk, status="DeadLettered", attempt_count=1, **values) for pk in ids)
    DeadLetter.objects.bulk_create(
        DeadLetter(
            saga_id=pk,
            event_id=pk,
            subscription=first.subscription,
            final_error_code="timeout",
            failed_at=first.failed_at,
            payload_snapshot="{}",
        )
        for pk in ids
    )

    page = requeuer.get(bulk_url({"requeued": "no", "limit": 5000})).content.decode()
    assert "<strong>1051</strong>" in page
    page = requeuer.post(bulk_url({}), {"run": run_in(page), "reason": "r"}).content.decode()

    assert "<strong>1051</strong> dead letters requeued" in page
    assert Saga.objects.filter(generation=1).count() == 1051


@pytest.mark.parametrize("limit", ["0", "5001", ""])
def test_the_limit_has_bounds(requeuer: Client, limit: str):
    dead_letters(2)

    page = requeuer.get(bulk_url({"limit": limit})).content.decode()

    assert "Nothing was requeued" in page
    assert run_in(page) is None


@pytest.mark.parametrize(("reason", "message"), [(" ", "Give a reason"), ("a\u202eb", "U+202E")])
def test_a_valid_reason_is_required(requeuer: Client, reason: str, message: str):
    dead_letters(2)

    page = confirm(requeuer, {"limit": 2}, reason)

    assert "Nothing was requeued" in page
    assert message in page
    assert "<strong>2</strong> dead letters match" in page
    assert not Requeue.objects.exists()
    requeuer.post(bulk_url({"limit": 2}), {"run": run_in(page), "reason": "r"})
    assert Requeue.objects.count() == 2


def test_a_delivery_that_has_not_ended_waits_and_the_others_are_requeued(requeuer: Client):
    letters = [dead_letter_before_its_delivery_ends(clock.now() - timedelta(days=9)), *dead_letters(3)]
    query = {"error_code": "timeout"}

    page = requeuer.get(bulk_url(query)).content.decode()
    assert "<strong>3</strong> dead letters match" in page
    assert "1 dead letter is skipped: its delivery has not ended yet. Try again in a minute." in page

    assert "<strong>3</strong> dead letters requeued" in confirm(requeuer, query, "fixed")
    assert requeued_ids() == set(ids_of(letters[1:]))
    Saga.objects.filter(pk=letters[0].saga_id).update(status="DeadLettered", attempt_count=3)
    assert "<strong>1</strong> dead letter requeued" in confirm(requeuer, query, "fixed")


@pytest.mark.parametrize(("limit", "not_ended"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_those_that_wait_are_counted_as_far_as_the_search_came(limit: int, not_ended: int):
    now = clock.now()
    dead_letter_before_its_delivery_ends(now - timedelta(days=9))
    letters = dead_letters(3)
    between = letters[1].failed_at + (letters[2].failed_at - letters[1].failed_at) / 2
    dead_letter_before_its_delivery_ends(between)

    selection = bulk_requeue.preview(DeadLetterFilter(), limit=limit)

    assert (len(selection.letters), selection.not_ended) == (min(limit, 3), not_ended)


@pytest.mark.parametrize(("group", "may"), [("support", False), ("auditors", False), ("operations", True)])
def test_a_bulk_requeue_needs_its_permission(member: Callable[[str], Client], group: str, may: bool):
    client = member(group)
    run = Run({}, 3, ids_of(dead_letters(3)), more=False, token="t")
    signed = run.signed(User.objects.get(username=group).pk)

    assert ("Requeue all" in client.get(rows.listing(NAME)).content.decode()) is may
    assert client.get(bulk_url({})).status_code == (200 if may else 403)
    assert client.post(bulk_url({}), {"run": signed, "reason": "r"}).status_code == (200 if may else 403)
    assert Requeue.objects.count() == (3 if may else 0)


def test_a_run_of_another_user_or_a_forged_one_is_refused(
    requeuer: Client, superuser: Client, viewer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(views, "PORTION", 1)
    dead_letters(3)
    run = run_in(confirm(requeuer, {}, "r"))
    assert run

    assert superuser.post(bulk_url({}), {"run": run}).status_code == 403
    assert viewer.post(bulk_url({}), {"run": run}).status_code == 403
    assert requeuer.post(bulk_url({}), {"run": run[:-2]}).status_code == 400
    assert requeuer.post(bulk_url({}), {"reason": "r"}).status_code == 400
    assert Requeue.objects.count() == 1


def test_an_expired_page_starts_again_with_the_same_filter(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    dead_letters(2)
    rows.dead_letter("other")
    query = {"error_code": "timeout", "limit": 5}
    run = run_in(requeuer.get(bulk_url(query)).content.decode())
    monkeypatch.setattr(signed_state, "MAX_PAGE_AGE", timedelta(seconds=-1))

    response = requeuer.post(bulk_url(query), {"run": run, "reason": "r"}, follow=True)

    page = response.content.decode()
    assert response.redirect_chain == [(bulk_url(query), 302)]
    assert "was open for too long" in page
    assert "<strong>2</strong> dead letters match" in page
    assert not Requeue.objects.exists()


def confirm_all(client: Client, letters: list[DeadLetter]) -> str:
    return client.get(bulk_url({})).content.decode()


def confirm_selected(client: Client, letters: list[DeadLetter]) -> str:
    url = reverse("admin:deadletters_deadletter_requeue")
    return client.get(url, {"ids": ",".join(map(str, ids_of(letters)))}).content.decode()


def change_subscription(letter: DeadLetter, **flags: bool) -> None:
    Subscription.objects.filter(pk=letter.subscription_id).update(**flags)


def test_recipients_beyond_the_table_are_counted(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "MAX_NAMED", 2)
    letters = [rows.dead_letter(str(n)) for n in range(2)]
    assert 'id="others"' not in confirm_all(requeuer, letters)
    letters += [rows.dead_letter(str(n)) for n in range(2, 5)]

    page = confirm_all(requeuer, letters)

    table = page.partition("Recipients</h2>")[2].partition("</section>")[0]
    assert sum(str(letter.subscription) in table for letter in letters) == 2
    assert '<tr id="others"><td>and 3 more</td><td class="hub-number">3</td>' in table


@pytest.mark.parametrize("confirmation", [confirm_all, confirm_selected])
def test_waiting_deliveries_are_counted_with_the_reason(requeuer: Client, confirmation: ShowRecipients):
    letters = [rows.dead_letter(str(n)) for n in range(4)]
    assert 'id="waiting"' not in confirmation(requeuer, letters)
    change_subscription(letters[0], active=False)

    page = confirmation(requeuer, letters)
    assert "1 new delivery will wait until its subscription is active and verified" in page
    assert "The subscription is switched off: its deliveries wait until it is switched on again." in page

    change_subscription(letters[1], verified=False)
    page = confirmation(requeuer, letters)
    assert "2 new deliveries will wait until their subscriptions are active and verified" in page
    assert "The subscription is not verified: its deliveries wait until it is." in page


def test_waiting_deliveries_are_confirmed_once(requeuer: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(views, "PORTION", 2)
    letters = dead_letters(5)
    change_subscription(letters[0], active=False)

    page = confirm(requeuer, {}, "fixed")
    assert "Nothing was requeued." in page
    assert "2 new deliveries would wait, because their subscriptions are paused, disabled or not verified." in page
    assert not Requeue.objects.exists()

    page = requeuer.post(bulk_url({}), {"run": run_in(page), "reason": "r", "allow_waiting": "on"}).content.decode()
    while run := run_in(page):
        page = requeuer.post(bulk_url({}), {"run": run}).content.decode()
    assert requeued_ids() == set(ids_of(letters))


def test_a_subscription_paused_between_two_portions_stops_the_requeue(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(views, "PORTION", 2)
    letters = dead_letters(4)
    run = run_in(confirm(requeuer, {}, "fixed"))
    change_subscription(letters[0], active=False)

    page = requeuer.post(bulk_url({}), {"run": run}).content.decode()

    assert "2 new deliveries would wait" in page
    assert 'name="allow_waiting"' in page
    assert requeued_ids() == set(ids_of(letters[:2]))


def test_waiting_deliveries_of_recipients_beyond_the_table_are_counted(
    requeuer: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(views, "MAX_NAMED", 1)
    letters = [rows.dead_letter(str(n)) for n in range(3)]
    for letter in letters:
        change_subscription(letter, active=False)

    assert "3 new deliveries will wait" in confirm_all(requeuer, letters)


@pytest.mark.every_engine
def test_a_hub_without_dead_letters_has_nothing_to_requeue(requeuer: Client):
    assert requeuer.get(bulk_url({"error_code": "timeout"})).status_code == 200

    assert bulk_requeue.preview(DeadLetterFilter()) == bulk_requeue.Selection([], None)
    result = bulk_requeue.requeue_matching(DeadLetterFilter(), by=Operator(), reason="r", limit=10)
    assert (result.count, result.next) == (0, None)
