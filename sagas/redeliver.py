"""Delivers a completed delivery again, as a new saga of the next generation; the old one does not change.

The caller records who asked for it and why. A dead-lettered delivery is requeued through its dead letter instead.
"""

from __future__ import annotations

from subscriptions.models import Subscription

from .create import NewSaga, create_sagas
from .models import Saga
from .policy import RetryPolicy
from .transitions import COMPLETED


class NotCompleted(Exception):
    """The delivery is still in progress or was dead-lettered."""


def redeliver(saga: Saga) -> int:
    """The id of the new delivery; the same id when called again."""
    if saga.status != COMPLETED:
        raise NotCompleted(f"delivery {saga.pk} is {saga.status}")
    subscription = Subscription.objects.only("max_retry_limit", "base_delay", "retry_delays").get(
        pk=saga.subscription_id
    )
    policy = RetryPolicy.with_overrides(
        subscription.max_retry_limit, subscription.base_delay, subscription.retry_delays
    )
    new = NewSaga(saga.event_id, saga.subscription_id, saga.generation + 1, policy)
    create_sagas([new], 1)
    return Saga.objects.get(**new.key._asdict()).pk
