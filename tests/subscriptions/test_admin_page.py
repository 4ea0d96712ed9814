"""A subscription's page: the health of its endpoint, and its actions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sagas.models import Saga
from subscriptions import sample_delivery
from subscriptions.models import Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import rows
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.auditlog import actions
from webhookhub.auditlog.models import Entry
from webhookhub.console import backfill
from webhookhub.db import clock
from webhookhub.egress.messages import Response
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult

pytestmark = pytest.mark.django_db
NAME = "subscriptions_subscription"


def address(verb: str, subscription: Any) -> str:
    name = "subscription_backfill" if verb == "backfill" else f"subscriptions_subscription_{verb}"
    return reverse(f"admin:{name}", args=[subscription.pk])


def page(client: Client, subscription: Any) -> str:
    response = client.get(rows.change(NAME, subscription.pk))
    assert response.status_code == 200
    return str(response.content.decode())


def test_health_shows_results_of_this_endpoint_only(viewer: Client):
    letter = rows.dead_letter("timeout")
    other = SubscriptionFactory.create()
    now = clock.now()
    outcomes = [attempts.COMPLETED] * 3 + [attempts.RETRIED]
    attempts.add(
        [
            AttemptResult(
                letter.subscription_id, outcome, None if outcome == attempts.COMPLETED else "http_500", now, now, 5
            )
            for outcome in outcomes
        ]
    )
    delivered = SagaFactory.create(subscription=letter.subscription, status="Completed", attempt_count=1)
    failing = SagaFactory.create(
        subscription=letter.subscription, status="PendingRetry", attempt_count=1, final_error_code="http_503"
    )

    html = page(viewer, letter.subscription)

    assert "75.0 %" in html
    assert rows.change("sagas_saga", delivered.pk) in html
    assert rows.change("sagas_saga", failing.pk) in html
    assert "http_503: the endpoint responded with 503" in html
    assert rows.change("deadletters_deadletter", letter.pk) in html
    assert "75.0 %" not in page(viewer, other)


def test_the_last_success_is_shown_when_newer_deliveries_failed(viewer: Client):
    letter = rows.dead_letter("timeout")

    def outcome(outcome: str, days: int) -> AttemptResult:
        at = clock.now() - timedelta(days=days)
        code = None if outcome == attempts.COMPLETED else "timeout"
        return AttemptResult(letter.subscription_id, outcome, code, at, at, 5)

    attempts.add([outcome(attempts.RETRIED, 1)])
    assert "Last success: none in the last" in " ".join(page(viewer, letter.subscription).split())

    attempts.add([outcome(attempts.COMPLETED, 3), outcome(attempts.COMPLETED, 6)])

    minute = clock.now() - timedelta(days=3)
    html = " ".join(page(viewer, letter.subscription).split())
    assert f'Last success: about <time datetime="{minute:%Y-%m-%dT%H:%M}:00' in html


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ({"verified": False}, "Verify the endpoint, so that it gets events"),
        ({"active": False}, "resume it"),
        ({}, "Send a test event"),
    ],
)
def test_an_unused_subscription_shows_the_next_step(viewer: Client, values: dict[str, Any], advice: str):
    assert advice in page(viewer, SubscriptionFactory.create(**values))


def test_health_needs_the_permission_to_view_deliveries(staff: Callable[..., Client]):
    subscription = SubscriptionFactory.create()

    assert 'id="health"' not in page(staff("anna", "view_subscription"), subscription)
    assert 'id="health"' in page(staff("bert", "view_subscription", "view_saga"), subscription)


def test_pause_and_resume_need_a_reason(member: Callable[[str], Client]):
    subscription = SubscriptionFactory.create()
    client = member("operations")
    pause, resume = address("pause", subscription), address("resume", subscription)
    assert pause in page(client, subscription)
    assert resume not in page(client, subscription)

    assert "open deliveries wait" in client.get(pause).content.decode()
    assert "Give the reason." in client.post(pause, {"reason": " "}).content.decode()
    assert Subscription.objects.get().active
    assert "Paused" in client.post(pause, {"reason": "maintenance"}, follow=True).content.decode()
    assert not Subscription.objects.get().active
    assert resume in page(client, subscription)
    client.post(pause, {"reason": "again"})
    client.post(resume, {"reason": "back"})

    assert Subscription.objects.get().active
    recorded = Entry.objects.filter(object_type="subscription").order_by("id")
    assert [(entry.action, entry.actor, entry.reason) for entry in recorded] == [
        (actions.PAUSE, "operations", "maintenance"),
        (actions.RESUME, "operations", "back"),
    ]


def test_an_edit_records_its_reason_and_a_reason_alone_is_no_edit(member: Callable[[str], Client]):
    subscription = SubscriptionFactory.create()
    client = member("operations")
    form = {"event_type": subscription.event_type, "callback_url": subscription.callback_url, "active": "on"}
    form |= rows.seen(client, subscription.pk)

    client.post(rows.change(NAME, subscription.pk), {**form, "reason": "nothing"})
    client.post(rows.change(NAME, subscription.pk), {**form, "description": "new", "reason": "asked by phone"})

    entry = Entry.objects.get(object_type="subscription")
    assert (entry.action, entry.reason) == (actions.EDIT, "asked by phone")


def test_a_test_event_shows_the_response(member: Callable[[str], Client], endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(200, b"thank you \x1b[31m <b>&")
    subscription = SubscriptionFactory.create(callback_url=endpoint.url())

    html = member("operations").post(address("test", subscription)).content.decode()

    assert "The test event was accepted: 200 after" in html
    assert "thank you" in html
    assert "<b>&" not in html.partition("thank you")[2][:40]
    assert "\x1b" not in html


@pytest.mark.parametrize(("code", "milliseconds", "message"), [(None, 80, "80 ms"), ("http_503", 4016, "4 s")])
def test_a_test_event_shows_its_duration(
    superuser: Client, monkeypatch: pytest.MonkeyPatch, code: str | None, milliseconds: int, message: str
):
    response = Response(code, milliseconds, 503 if code else 200)
    monkeypatch.setattr(sample_delivery, "send", lambda request: response)

    html = superuser.post(address("test", SubscriptionFactory.create())).content.decode()

    outcome = "failed: the endpoint responded with 503 (http_503), after" if code else "was accepted: 200 after"
    assert f"The test event {outcome} {message}." in html


def test_a_backfill_creates_each_delivery_once(member: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backfill, "PORTION", 2)
    subscription = SubscriptionFactory.create()
    now = clock.now()
    events = [EventFactory.create(created_at=now - timedelta(minutes=number)) for number in range(1, 6)]
    SagaFactory.create(event=events[0], subscription=subscription)
    EventFactory.create(created_at=now - timedelta(days=2))
    client = member("operations")
    data = {"since": f"{now - timedelta(days=1):%Y-%m-%d %H:%M}", "reason": "new customer"}

    html = client.post(address("backfill", subscription), data).content.decode()
    turns = 1
    while state := re.search(r'name="run" value="([^"]+)"', html):
        again = client.post(address("backfill", subscription), {"run": state[1]})
        created = Saga.objects.count()
        client.post(address("backfill", subscription), {"run": state[1]})
        assert Saga.objects.count() == created, "a portion that is sent again does nothing"
        html = again.content.decode()
        turns += 1

    assert turns == 3
    assert "Created 4 deliveries for 5 events." in html
    assert 'id="finished"' in html
    assert Saga.objects.filter(subscription=subscription).count() == 5
    recorded = Entry.objects.filter(action=actions.BACKFILL)
    assert [(entry.actor, entry.reason) for entry in recorded] == [("operations", "new customer")]
    assert "Nothing to do" not in html


def test_a_backfill_without_missing_deliveries_writes_no_entry(
    member: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backfill, "PORTION", 2)
    subscription = SubscriptionFactory.create()
    for minutes in range(1, 4):
        SagaFactory.create(
            event=EventFactory.create(created_at=clock.now() - timedelta(minutes=minutes)), subscription=subscription
        )
    client = member("operations")
    data = {"since": f"{clock.now() - timedelta(days=1):%Y-%m-%d %H:%M}", "reason": "to be sure"}

    html = client.post(address("backfill", subscription), data).content.decode()
    while state := re.search(r'name="run" value="([^"]+)"', html):
        assert "Nothing to do" not in html
        html = client.post(address("backfill", subscription), {"run": state[1]}).content.decode()

    assert "Nothing to do: all events since then have a delivery" in html
    assert not Entry.objects.filter(action=actions.BACKFILL).exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"since": ""}, "Enter a date and time such as"),
        ({"since": "2999-01-01 00:00"}, "Enter a time in the past."),
        ({"reason": ""}, "Give the reason."),
    ],
)
def test_an_invalid_backfill_shows_the_error(member: Callable[[str], Client], data: dict[str, str], message: str):
    subscription = SubscriptionFactory.create()
    values = {"since": "2026-01-01 00:00", "reason": "r", **data}

    html = member("operations").post(address("backfill", subscription), values).content.decode()

    assert message in html
    assert "Nothing was changed." in html
    assert not Entry.objects.filter(action=actions.BACKFILL).exists()


def test_a_subscription_stored_under_older_rules_can_be_paused(member: Callable[[str], Client], hub_settings: Any):
    subscription = SubscriptionFactory.create(callback_url="https://hooks.example.com:8443/")
    Subscription.objects.filter(pk=subscription.pk).update(description="a\ttab")
    hub_settings(allowed_ports=((443, 443),))
    client = member("operations")

    for verb, active in (("pause", False), ("resume", True)):
        assert client.post(address(verb, subscription), {"reason": "maintenance"}).status_code == 302
        subscription.refresh_from_db()
        assert subscription.active is active


def test_a_paused_subscription_cannot_be_backfilled(member: Callable[[str], Client]):
    subscription = SubscriptionFactory.create(active=False)
    client = member("operations")

    assert "Resume and verify it first" in client.get(address("backfill", subscription)).content.decode()
    html = client.post(address("backfill", subscription), {"since": "2026-01-01 00:00", "reason": "r"})
    assert "activate and verify it first" in html.content.decode()


@pytest.mark.parametrize("group", ["support", "auditors"])
def test_other_groups_cannot_pause_or_backfill(member: Callable[[str], Client], group: str):
    subscription = SubscriptionFactory.create()
    client = member(group)
    html = page(client, subscription)

    for verb in ("pause", "resume", "backfill"):
        assert address(verb, subscription) not in html
        assert client.get(address(verb, subscription)).status_code == 403
        data = {"reason": "r", "since": "2026-01-01 00:00"}
        assert client.post(address(verb, subscription), data).status_code == 403
    assert Subscription.objects.get().active
    assert not Entry.objects.filter(object_type="subscription").exists()


def test_a_backfill_cannot_be_continued_by_another_user(
    member: Callable[[str], Client], superuser: Client, monkeypatch: Any
):
    monkeypatch.setattr(backfill, "PORTION", 1)
    one, two = SubscriptionFactory.create(), SubscriptionFactory.create()
    for _ in range(3):
        EventFactory.create(created_at=clock.now() - timedelta(minutes=1))
    data = {"since": "2026-01-01 00:00", "reason": "r"}
    state = re.search(r'"run" value="([^"]+)"', superuser.post(address("backfill", one), data).content.decode())
    assert state

    assert member("operations").post(address("backfill", one), {"run": state[1]}).status_code == 403
    assert superuser.post(address("backfill", two), {"run": state[1]}).status_code == 403
    assert superuser.post(address("backfill", one), {"run": state[1] + "x"}).status_code == 400
    assert Saga.objects.count() == 1
