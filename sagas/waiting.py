"""Why a waiting delivery is not attempted now, for the pages and the API."""

from __future__ import annotations

from collections.abc import Sequence

from subscriptions.models import EndpointHealth, Subscription

from .models import PARKED, Saga
from .transitions import WAITING

PAUSED, UNVERIFIED, DISABLED, CUSTOMER = "paused", "unverified", "disabled", "customer_disabled"
FAILING, RATE_LIMIT, BUSY = "failing", "rate_limit", "busy"
REASONS = (PAUSED, UNVERIFIED, DISABLED, CUSTOMER, FAILING, RATE_LIMIT, BUSY)


def is_parked(saga: Saga) -> bool:
    return saga.status in WAITING and saga.next_attempt_at >= PARKED


def held_back(subscription: Subscription) -> str | None:
    """Why a subscription gets no attempts now; None if it does."""
    if not subscription.active:
        return PAUSED
    if not subscription.verified:
        return UNVERIFIED
    if subscription.disabled_at is not None:
        return DISABLED
    return CUSTOMER if subscription.customer_disabled_at is not None else None


def waiting_for(sagas: Sequence[Saga]) -> dict[int, str]:
    """By the saga's id, why it waits for its endpoint. A saga that only waits for its time has no reason."""
    waiting = [saga for saga in sagas if saga.status in WAITING]
    columns = ("endpoint_id", "active", "verified", "disabled_at", "customer_disabled_at", "rate_limit")
    subscriptions = Subscription.objects.only(*columns).in_bulk({saga.subscription_id for saga in waiting})
    found = {saga: subscriptions[saga.subscription_id] for saga in waiting if saga.subscription_id in subscriptions}
    reasons = {saga.id: reason for saga, row in found.items() if (reason := held_back(row))}
    parked = {saga: row for saga, row in found.items() if saga.id not in reasons and is_parked(saga)}
    endpoints = {row.endpoint_id for row in parked.values()}
    if endpoints:
        health = EndpointHealth.objects.filter(endpoint_id__in=endpoints, breaker_open_since__isnull=False)
        failing = set(health.values_list("endpoint_id", flat=True))
        for saga, row in parked.items():
            is_failing = row.endpoint_id in failing
            reasons[saga.id] = FAILING if is_failing else RATE_LIMIT if row.rate_limit is not None else BUSY
    return reasons
