"""Figures per endpoint: the same in /metrics, the API and the console."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sagas.dispatch import dispatch
from sagas.models import Saga
from sagas.parking import park
from subscriptions import health
from subscriptions.models import Subscription, endpoint_id
from tests.factories import SagaFactory, SubscriptionFactory
from webhookhub.db import clock
from webhookhub.stats import attempts, endpoints
from webhookhub.stats.attempts import AttemptResult

from .test_prometheus import scrape

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

URL = "https://127.0.0.1:1025/slow?token=secret"
LABELS = "https://127.0.0.1:1025/slow?…"


def wait(subscription: Subscription, count: int, age: timedelta = timedelta(minutes=3)) -> None:
    for _ in range(count):
        at = clock.now() - age
        saga: Saga = SagaFactory.create(subscription=subscription, next_attempt_at=at, created_at=at)
        assert park([saga.id], "Pending") == 1


def result(subscription: Subscription, error_code: str | None, at: datetime, duration_ms: int = 40) -> AttemptResult:
    outcome = attempts.COMPLETED if error_code is None else attempts.RETRIED
    return AttemptResult(subscription.id, outcome, error_code, at, at, duration_ms)


@pytest.fixture
def slow() -> Subscription:
    """An endpoint with two subscriptions: three deliveries wait, two are open, a third of the attempts succeeded."""
    subscription: Subscription = SubscriptionFactory.create(callback_url=URL)
    other: Subscription = SubscriptionFactory.create(callback_url=URL, event_type="order.paid")
    for row in (subscription, other):
        SagaFactory.create(subscription=row)
    dispatch(10)
    wait(other, 1, age=timedelta(hours=2))
    wait(subscription, 2)
    minute = clock.now() - timedelta(minutes=2)
    attempts.add([result(other, code, minute) for code in (None, "timeout", "http_500")])
    attempts.add([result(other, None, clock.now() - timedelta(hours=3))])  # too long ago
    health.note_failing(endpoint_id(subscription), minute, "timeout", minute)
    return subscription


def test_the_figures_of_an_endpoint_are_those_of_all_its_subscriptions(slow: Subscription):
    SubscriptionFactory.create()
    stats = endpoints.of_subscription(slow, clock.now())
    assert (stats.open, stats.waiting, stats.subscription) == (2, 3, slow)
    assert stats.oldest_waiting is not None
    assert timedelta(hours=2) <= clock.now() - stats.oldest_waiting < timedelta(hours=3)
    assert stats.success_rate == pytest.approx(1 / 3)
    assert stats.attempts_per_second == pytest.approx(3 / 300)
    assert stats.p95_ms is not None
    assert 25 < stats.p95_ms <= 50
    assert (stats.is_failing, stats.is_breaker_open, stats.is_disabled) == (True, True, False)


def test_a_count_stops_at_its_limit(slow: Subscription, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(endpoints, "LIMIT", 2)
    assert endpoints.of_subscription(slow, clock.now()).waiting == 2


def test_an_idle_endpoint_has_no_figures():
    stats = endpoints.of_subscription(SubscriptionFactory.create(), clock.now())
    assert (stats.open, stats.waiting, stats.oldest_waiting, stats.health) == (0, 0, None, None)
    assert (stats.success_rate, stats.p95_ms, stats.attempts_per_second) == (None, None, 0)


def test_the_worst_endpoints_are_those_that_wait_longest_then_those_that_fail(monkeypatch: pytest.MonkeyPatch):
    longest, second, failing, gone, healthy = SubscriptionFactory.create_batch(5)
    wait(longest, 1)
    wait(second, 5)
    minute = clock.now() - timedelta(minutes=2)
    attempts.add([result(failing, "timeout", minute), result(healthy, None, minute)])
    health.disable_gone(endpoint_id(gone))

    def worst() -> list[Any]:
        return [stats.subscription for stats in endpoints.worst(clock.now())]

    assert worst() == [longest, second, failing, gone]
    monkeypatch.setattr(endpoints, "WORST", 2)
    assert worst() == [longest, second]


def test_metrics_have_the_worst_endpoints_and_totals(slow: Subscription):
    gone = SubscriptionFactory.create()
    health.disable_gone(endpoint_id(gone))
    samples = scrape()
    labels = LABELS, str(slow.pk)
    assert samples["webhookhub_endpoint_waiting"][labels] == 3
    assert samples["webhookhub_endpoint_open"][labels] == 2
    assert samples["webhookhub_endpoint_oldest_waiting_seconds"][labels] >= 7200
    assert samples["webhookhub_endpoint_success_ratio"][labels] == pytest.approx(1 / 3)
    assert samples["webhookhub_endpoint_p95_seconds"][labels] <= 0.05
    assert samples["webhookhub_endpoint_breaker_open"][labels] == 1
    assert samples["webhookhub_endpoint_disabled"] == {labels: 0, (gone.callback_url, str(gone.pk)): 1}
    assert samples["webhookhub_deliveries_parked"][()] == 3
    assert samples["webhookhub_endpoints"] == {("failing",): 1, ("probed",): 1, ("disabled",): 1}
    assert "secret" not in str(samples)


def test_the_console_lists_the_worst_endpoints(slow: Subscription, superuser: Client, staff: Any):
    page = superuser.get(reverse("admin:endpoints")).content.decode()
    assert "only probed" in page
    assert "33.3 %" in page
    assert "secret" not in page
    assert staff("ina", "view_saga").get(reverse("admin:endpoints")).status_code == 403
    own = superuser.get(reverse("admin:subscriptions_subscription_change", args=[slow.pk])).content.decode()
    assert 'id="endpoint"' in own
    assert "33.3 %" in own
    empty = superuser.get(reverse("admin:index")).content.decode()
    assert reverse("admin:endpoints") in empty


def test_the_page_of_a_healthy_hub_says_so(superuser: Client):
    page = superuser.get(reverse("admin:endpoints")).content.decode()
    assert "No delivery waits for its endpoint" in page
