"""Order runs for tests, and deliveries of their events."""

from __future__ import annotations

from typing import Any

from events.intake import publish
from events.models import Event
from sagas.models import Saga
from tests.factories import JobFactory, SagaFactory, SubscriptionFactory
from tests.workflows.support import catch_up, instance, tracked
from workflows.models import Instance

DONE = ["order.submitted", "inventory.reserved", "payment.processed", "shipping.arranged", "order.confirmed"]


def order(key: str, *event_types: str, **payload: Any) -> Instance:
    """The run of an order after these events."""
    tracked()
    for event_type in event_types:
        publish(event_type, {"order_id": key, **payload}, source="shop", correlation_id=key)
    catch_up()
    return instance(key)


def completed(key: str) -> Instance:
    return order(key, *DONE)


def waiting_for_payment(key: str) -> Instance:
    return order(key, *DONE[:2])


def declined(key: str) -> Instance:
    """Failed at the payment and compensating."""
    return order(key, *DONE[:2], "payment.failed", reason="the card was declined")


def failed(key: str) -> Instance:
    """The compensation failed: the run needs an operator."""
    return order(key, *DONE[:2], "payment.failed", "order.failed", "inventory.release_failed", reason="no way back")


def delivery(key: str, event_type: str, status: str, error_code: str | None = None, attempts: int = 5) -> Saga:
    """The delivery of one of an order's events to the payment service."""
    event = Event.objects.get(correlation_id=key, event_type=event_type)
    subscription: Any = SubscriptionFactory(event_type=event_type, description="payment service")
    saga: Any = SagaFactory(
        event=event,
        subscription=subscription,
        status=status,
        attempt_count=attempts,
        max_retry_limit=10,
        final_error_code=error_code,
    )
    if error_code is not None:
        JobFactory(saga=saga, attempt_no=attempts, status="Failed", error_code=error_code)
    found: Saga = saga
    return found
