"""The endpoints of subscriptions, as the orchestrator sees them: their state, and the slots of limited ones."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import IntegrityError

from webhookhub.db import clock
from webhookhub.db.compiled import CompiledSelect
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.retry import one_statement

from .models import EndpointRate, Subscription

# What an endpoint with a rate limit may get at once, in seconds of its rate.
BURST = timedelta(milliseconds=100)


class SubscribedEndpoint(NamedTuple):
    id: int
    # Whether the subscription may get new attempts.
    is_routable: bool


def endpoints_of(subscription_ids: Collection[int]) -> dict[int, SubscribedEndpoint]:
    """The endpoint of each of these subscriptions."""
    rows = _rows(ids=list(subscription_ids))
    return {
        pk: SubscribedEndpoint(
            endpoint_id or 0, bool(active and verified and disabled_at is None and customer_disabled_at is None)
        )
        for pk, endpoint_id, active, verified, disabled_at, customer_disabled_at in rows
    }


_rows = CompiledSelect(
    lambda ids: Subscription.objects.filter(id__in=ids).values_list(
        "id", "endpoint_id", "active", "verified", "disabled_at", "customer_disabled_at"
    )
)


def rate_limits() -> dict[int, int]:
    """Deliveries per second of each limited endpoint that gets deliveries."""
    limited = Subscription.objects.routable().filter(rate_limit__isnull=False, endpoint__isnull=False).order_by()
    rows = limited.values_list("endpoint_id", "rate_limit").distinct()
    return {pk: limit for pk, limit in rows if pk is not None and limit is not None}


class Slots(NamedTuple):
    """So many deliveries may go now; the next one after `wait`."""

    taken: int
    wait: timedelta


def take_slots(endpoint_id: int, rate: int, wanted: int) -> Slots:
    """Reserve up to `wanted` deliveries to an endpoint with a rate limit, across all processes.

    The endpoint's row has the time of its next free slot. Each reservation moves it on by compare-and-set, so that two
    processes never reserve the same slot.
    """
    free_at = EndpointRate.objects.filter(endpoint_id=endpoint_id).values_list("free_at", flat=True).first()
    now = clock.now()
    if free_at is None:
        free_at = now - BURST
        _create_rate(endpoint_id, free_at)
    first = max(free_at, now - BURST)
    interval = max(timedelta(seconds=1) / rate, timedelta(microseconds=1))
    count = min(wanted, int((now - first) / interval) + 1) if first <= now else 0
    if not count:
        return Slots(0, first - now)
    after = first + count * interval
    row = EndpointRate.objects.filter(endpoint_id=endpoint_id, free_at=free_at)
    if not one_statement(lambda: row.update(free_at=after)):
        return Slots(0, timedelta(0))  # another process was faster
    return Slots(count, max(timedelta(0), after - now))


def _create_rate(endpoint_id: int, free_at: datetime) -> None:
    try:
        one_statement(lambda: EndpointRate.objects.create(endpoint_id=endpoint_id, free_at=free_at))
    except IntegrityError as error:
        if kind_of(error) is not Kind.DUPLICATE:
            raise
