"""Delivering anew what has been delivered: a brand-new saga of the next generation; the old one stays as it is.

For whoever has recorded who asked for it and why. What died is requeued by its dead letter instead.
"""

from __future__ import annotations

from subscriptions.models import Subscription

from . import create
from .create import NewSaga
from .models import Saga
from .policy import RetryPolicy
from .transitions import COMPLETED


class NotCompleted(Exception):
    """A delivery is still under way, or has died."""


def repeat(saga: Saga) -> int:
    """The id of the new delivery. Asked again, it is the same one."""
    if saga.status != COMPLETED:
        raise NotCompleted(f"delivery {saga.pk} is {saga.status}")
    subscription = Subscription.objects.only("max_retry_limit", "base_delay").get(pk=saga.subscription_id)
    policy = RetryPolicy.with_overrides(subscription.max_retry_limit, subscription.base_delay)
    create.insert([NewSaga(saga.event_id, saga.subscription_id, saga.generation + 1, policy)], 1)
    return Saga.objects.get(
        event_id=saga.event_id, subscription_id=saga.subscription_id, generation=saga.generation + 1
    ).pk
