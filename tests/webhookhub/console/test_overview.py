"""The overview: numbers, alerts and permissions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import rows
from webhookhub.conf import KINDS
from webhookhub.console import overview
from webhookhub.db import clock
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult
from workflows.models import Instance

pytestmark = pytest.mark.django_db

MAX_QUERIES = 15


def fragment(client: Client, span: str = "hour") -> str:
    response = client.get(reverse("admin:overview"), {"span": span})
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def count(outcome: str, number: int, subscription: Any, error: str | None = None, ago: int = 5) -> None:
    at = clock.now() - timedelta(minutes=ago)
    attempts.add([AttemptResult(subscription.pk, outcome, error, at, at, 40)] * number)


def tile(page: str, title: str) -> str:
    """The number under a title."""
    return page.partition(f"<span>{title}</span>")[2].partition("</strong>")[0].rpartition(">")[2]


def test_deliveries_and_failures_are_counted(viewer: Client):
    good: Any = SubscriptionFactory(callback_url="https://127.0.0.1:1025/good")
    bad: Any = SubscriptionFactory(callback_url="https://127.0.0.1:1025/bad")
    count("completed", 6, good)
    count("retried", 2, bad, "http_503")
    count("dead_lettered", 1, bad, "http_503")

    page = fragment(viewer)

    assert [tile(page, name) for name in ("Delivered", "Failed attempts", "Dead-lettered", "Success rate")] == [
        "6",
        "2",
        "1",
        "66.7 %",
    ]
    assert tile(page, "Delivery time, p50").endswith(" ms")
    worst = page.partition("Most failures")[2]
    assert "/bad" in worst
    assert "/good" not in worst
    assert page.index("/good") < page.index("/bad")
    assert "6 delivered, 2 failed and will be retried, 1 dead-lettered" in page


def test_deliveries_before_the_span_are_not_counted(viewer: Client):
    subscription = SubscriptionFactory()
    count("completed", 3, subscription, ago=90)

    assert tile(fragment(viewer, "hour"), "Delivered") == "0"
    assert tile(fragment(viewer, "day"), "Delivered") == "3"
    assert tile(fragment(viewer, "week"), "Delivered") == "3"


def test_due_and_past_due_are_counted_up_to_a_limit(viewer: Client, monkeypatch: pytest.MonkeyPatch):
    now = clock.now()
    oldest = now - timedelta(hours=3)
    SagaFactory(next_attempt_at=now - timedelta(seconds=5))
    SagaFactory(status="PendingRetry", attempt_count=1, next_attempt_at=oldest)
    SagaFactory(next_attempt_at=now + timedelta(hours=1))

    page = fragment(viewer)
    assert tile(page, "Due / past due") == "2 / 1"
    assert f"{oldest:%Y-%m-%d %H:%M:%S} UTC" in page
    assert "1 deliveries are past due" in page

    monkeypatch.setattr(overview, "LIMIT", 2)
    assert tile(fragment(viewer), "Due / past due") == "2+ / 1+"


def test_unrouted_events_are_counted(viewer: Client):
    EventFactory()
    EventFactory()

    assert tile(fragment(viewer), "Unrouted events") == "2"


def test_a_missing_process_is_an_alert(viewer: Client):
    for kind in KINDS[1:]:
        rows.process(f"{kind}-1", kind=kind)

    page = fragment(viewer)
    assert f"No {KINDS[0]} process is running" in page
    assert f"No {KINDS[1]} process is running" not in page

    rows.process("old", kind=KINDS[0], heartbeat_at=clock.now() - timedelta(hours=1))
    assert f"No {KINDS[0]} process is running" in fragment(viewer)
    rows.process("new", kind=KINDS[0])
    assert "No problems" in fragment(viewer)


def all_running() -> None:
    for kind in KINDS:
        rows.process(f"{kind}-1", kind=kind)


@pytest.mark.parametrize("span", ["hour", "week"])
def test_dead_letters_of_the_last_hour_are_an_alert_in_every_span(viewer: Client, span: str):
    all_running()
    subscription = SubscriptionFactory()
    count("completed", 300, subscription)
    count("dead_lettered", 12, subscription, "http_503", ago=90)
    assert "No problems" in fragment(viewer, span)

    count("dead_lettered", 1, subscription, "http_503")
    page = fragment(viewer, span)
    assert "No problems" not in page
    assert "1 delivery became a dead letter in the last hour." in page
    note = page.partition('role="status"')[2].partition("</ul>")[0]
    assert reverse("admin:deadletters_deadletter_changelist") in note


def test_a_low_success_rate_of_enough_attempts_is_an_alert(viewer: Client):
    all_running()
    subscription = SubscriptionFactory()
    count("completed", 10, subscription)
    count("retried", 9, subscription, "timeout")
    assert "No problems" in fragment(viewer)

    count("retried", 1, subscription, "timeout")
    assert "Only 50.0 % of the 20 attempts of the last hour succeeded." in fragment(viewer)
    count("completed", 80, subscription)
    assert "No problems" in fragment(viewer)


def test_an_endpoint_that_fails_all_attempts_is_an_alert(viewer: Client):
    all_running()
    good, bad, idle = SubscriptionFactory(), SubscriptionFactory(), SubscriptionFactory()
    count("completed", 500, good)
    count("retried", 4, bad, "timeout")
    count("retried", 1, idle, "timeout")
    assert "No problems" in fragment(viewer)

    count("retried", 1, bad, "timeout")
    assert "1 endpoint failed every attempt of the last hour." in fragment(viewer)


def test_no_alerts_covers_only_what_the_user_may_see(staff: Callable[..., Client]):
    all_running()
    subscription = SubscriptionFactory()

    watcher, sender = staff("watcher", "view_process"), staff("sender", "view_saga")
    assert "All processes are running." in fragment(watcher)
    assert "past due" not in fragment(watcher)
    note = fragment(sender).partition('role="status"')[2].partition("</div>")[0]
    assert "No delivery is past due, and there were no dead letters in the last hour." in note
    assert "running" not in note
    count("dead_lettered", 2, subscription, "http_503")
    note = fragment(sender).partition('role="status"')[2].partition("</div>")[0]
    assert "2 deliveries became dead letters in the last hour." in note
    assert "href" not in note
    assert "All processes are running." in fragment(watcher)


def test_the_overview_shows_only_what_the_user_may_see(staff: Callable[..., Client]):
    rows.process("worker-9")
    subscription = SubscriptionFactory()
    count("completed", 1, subscription)

    outsider, watcher, sender = staff("outsider"), staff("watcher", "view_process"), staff("sender", "view_saga")
    assert "You do not have permission" in fragment(outsider)
    assert "worker-9" not in fragment(outsider)
    assert "worker-9" in fragment(watcher)
    assert "Delivered" not in fragment(watcher)
    assert "Delivered" in fragment(sender)
    assert str(subscription.callback_url) not in fragment(sender)


def test_the_index_is_the_overview_and_needs_a_login(viewer: Client, client: Client):
    page = viewer.get(reverse("admin:index"), {"span": "day"}).content.decode()
    assert f'data-fragment="{reverse("admin:overview")}?span=day"' in page
    assert client.get(reverse("admin:overview")).status_code == 302


@pytest.mark.parametrize("span", ["", "\0", "x" * 5000])
def test_an_unknown_span_is_accepted(viewer: Client, span: str):
    assert viewer.get(reverse("admin:index"), {"span": span}).status_code == 200


def test_the_number_of_queries_does_not_grow_with_the_rows_of_the_overview(
    member: Callable[[str], Client], django_assert_max_num_queries: Any
):
    for number in range(8):
        subscription = SubscriptionFactory()
        count("retried", 1, subscription, "timeout", ago=number)
        SagaFactory(subscription=subscription)
        rows.process(f"p-{number}")
    client = member("support")

    for span in ("hour", "day", "week"):
        with django_assert_max_num_queries(MAX_QUERIES):
            assert client.get(reverse("admin:index"), {"span": span}).status_code == 200


def test_hostile_names_are_escaped(viewer: Client):
    rows.process(rows.HOSTILE[:90])

    assert "<script>alert" not in fragment(viewer)


@pytest.mark.requirement("R5-5j")
def test_open_workflows_are_counted_by_status(viewer: Client, superuser: Client):
    for number, status in enumerate(("IN_PROGRESS", "IN_PROGRESS", "COMPENSATING", "COMPLETED", "FAILED")):
        Instance.objects.create(
            saga_type="ORDER", definition_version=1, correlation_key=f"order-{number}", status=status
        )

    assert tile(fragment(superuser), "Open workflows") == "2 in progress, 1 compensating"
    assert "Open workflows" not in fragment(viewer)


def need_operator(number: int) -> None:
    for index in range(number):
        Instance.objects.create(
            saga_type="ORDER", definition_version=1, correlation_key=f"o-{index}", status="FAILED", needs_operator=True
        )


@pytest.mark.requirement("R5-5e", "R5-5h")
def test_runs_that_need_an_operator_are_an_alert(viewer: Client, superuser: Client, staff: Callable[..., Client]):
    all_running()
    title = "Workflows that need an operator"
    assert tile(fragment(superuser), title) == "0"
    assert "No problems" in fragment(superuser)
    need_operator(2)

    for client in (superuser, staff("clerk", "view_instance")):
        note = fragment(client).partition('role="status"')[2].partition("</ul>")[0]
        assert "2 workflow runs need an operator." in note
        assert reverse("admin:workflows_instance_changelist") + "?operator=1" in note
    assert tile(fragment(superuser), title) == "2"
    assert "operator" not in fragment(viewer)


def test_runs_that_need_an_operator_are_counted_up_to_a_limit(superuser: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(overview, "LIMIT", 3)
    need_operator(4)

    assert "3+ workflow runs need an operator." in fragment(superuser)
