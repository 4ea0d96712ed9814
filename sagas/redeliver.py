"""Sends an ended delivery again, as a new saga of the next generation; the old one does not change.

The caller records who asked for it and why. A dead letter is requeued, which has a record of its own.
"""

from __future__ import annotations

from deadletters.models import DeadLetter
from deadletters.requeue import requeue_recorded
from subscriptions.models import Subscription

from .create import NewSaga, create_sagas
from .models import Saga
from .policy import RetryPolicy
from .transitions import COMPLETED, DEAD_LETTERED


class NotEnded(Exception):
    """The delivery is still in progress."""


def send_again(saga: Saga, *, by: str, reason: str, token: str) -> bool:
    """Create the next generation of an ended delivery; False if it exists already."""
    if saga.status == DEAD_LETTERED:
        letter = DeadLetter.objects.only("id").get(saga_id=saga.pk)
        return requeue_recorded(letter.pk, requested_by=by, reason=reason, token=token)
    if saga.status != COMPLETED:
        raise NotEnded(f"delivery {saga.pk} is {saga.status}")
    subscription = Subscription.objects.only("max_retry_limit", "base_delay", "retry_delays").get(
        pk=saga.subscription_id
    )
    policy = RetryPolicy.with_overrides(
        subscription.max_retry_limit, subscription.base_delay, subscription.retry_delays
    )
    new = NewSaga(saga.event_id, saga.subscription_id, saga.generation + 1, policy, saga.customer_key, saga.endpoint_id)
    return bool(create_sagas([new], 1))


def next_generation(saga: Saga) -> int | None:
    """The id of the delivery that follows this one."""
    later = Saga.objects.filter(
        event_id=saga.event_id, subscription_id=saga.subscription_id, generation=saga.generation + 1
    )
    return later.values_list("id", flat=True).first()
