"""A parked delivery is shown as waiting for its endpoint, with the reason, and never with the time of the park."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sagas.models import Saga
from sagas.parking import park
from sagas.waiting import REASONS, waiting_for
from subscriptions import health
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription, endpoint_id
from tests.factories import SagaFactory, SubscriptionFactory
from webhookhub.console import format
from webhookhub.db import clock

pytestmark = pytest.mark.django_db

Change = Callable[[Subscription], object]


def values(**columns: Any) -> Change:
    return lambda row: Subscription.objects.filter(id=row.id).update(**columns)


def open_breaker(row: Subscription) -> None:
    health.note_failing(endpoint_id(row), clock.now(), "timeout", clock.now())


def limit_endpoint(row: Subscription) -> None:
    SubscriptionFactory.create(callback_url=row.callback_url, event_type="order.paid")
    Endpoint.objects.filter(id=endpoint_id(row)).update(rate_limit=5)


CASES: list[tuple[Change, str]] = [
    (values(active=False), "paused"),
    (values(verified=False), "unverified"),
    (lambda row: health.disable_gone(endpoint_id(row)), "disabled"),
    (open_breaker, "failing"),
    (values(rate_limit=5), "rate_limit"),
    (limit_endpoint, "rate_limit"),
    (lambda row: None, "busy"),
]


def parked_saga() -> Saga:
    saga: Saga = SagaFactory.create(next_attempt_at=clock.now() - timedelta(seconds=1))
    assert park([saga.id], "Pending") == 1
    saga.refresh_from_db()
    return saga


@pytest.mark.parametrize(("change", "reason"), CASES)
def test_the_reason_of_a_parked_delivery(viewer: Client, change: Change, reason: str):
    saga = parked_saga()
    change(saga.subscription)
    assert waiting_for([saga]) == {saga.id: reason}
    page = viewer.get(reverse("admin:sagas_saga_change", args=[saga.pk])).content.decode()
    assert str(format.waiting_for(reason)) in page
    assert "9000-" not in page
    listed = viewer.get(reverse("admin:sagas_saga_changelist")).content.decode()
    assert "waits" in listed
    assert "9000-" not in listed


def test_every_reason_has_a_text():
    assert set(format.WAITING_FOR) == set(REASONS)


def test_a_delivery_that_waits_for_its_time_or_has_ended_has_no_reason():
    later = SagaFactory.create(next_attempt_at=clock.now() + timedelta(hours=1))
    done = SagaFactory.create(status="Completed")
    assert waiting_for([later, done]) == {}


def test_a_subscriptions_page_does_not_show_the_time_of_the_park(viewer: Client, staff: Callable[..., Client]):
    saga = SagaFactory.create(status="PendingRetry", next_attempt_at=clock.now() - timedelta(seconds=1))
    Saga.objects.filter(id=saga.id).update(final_error_code="timeout")
    assert park([saga.id], "PendingRetry") == 1
    client = staff("otto", "view_saga", "view_subscription")
    page = client.get(reverse("admin:subscriptions_subscription_change", args=[saga.subscription_id])).content.decode()
    assert "waits for its endpoint" in page
    assert "9000-" not in page
