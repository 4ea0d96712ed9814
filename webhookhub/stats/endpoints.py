"""Figures per endpoint: what is open, what waits, how it responds.

Every read goes along an index and has a limit, however many deliveries wait.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from jobs.models import Job
from jobs.states import ACTIVE
from sagas.models import Saga
from sagas.parking import oldest_parked, parked_subscriptions
from subscriptions.models import EndpointHealth, Subscription, endpoint_id

from . import queries
from .queries import Summary

# Waiting deliveries of an endpoint, and open attempts of all endpoints, are counted up to this limit.
LIMIT = 10_000
WORST = 20
# Endpoints with waiting deliveries that are compared to find the worst.
MAX_COMPARED = 1000
# Subscriptions of one endpoint that are considered.
MAX_SUBSCRIPTIONS = 1000
# The rate is that of the last minutes, the rest that of the last hour.
RATE_PERIOD = timedelta(minutes=5)
PERIOD = timedelta(hours=1)


@dataclass(frozen=True)
class EndpointStats:
    id: int
    url: str
    # The subscription with the lowest id stands for the endpoint in links and labels.
    subscription: Subscription
    open: int
    waiting: int
    oldest_waiting: datetime | None
    attempts_per_second: float
    last_hour: Summary
    health: EndpointHealth | None

    @property
    def success_rate(self) -> float | None:
        return self.last_hour.success_rate

    @property
    def p95_ms(self) -> float | None:
        return self.last_hour.duration_ms(0.95)

    @property
    def is_disabled(self) -> bool:
        return self.health is not None and self.health.disabled_at is not None

    @property
    def is_failing(self) -> bool:
        return self.health is not None and self.health.recovered_at is None

    @property
    def is_breaker_open(self) -> bool:
        return self.health is not None and self.health.breaker_open_since is not None


def of_subscription(subscription: Subscription, now: datetime) -> EndpointStats:
    """The figures of the endpoint of a subscription."""
    [stats] = _stats([endpoint_id(subscription)], now)
    return stats


def worst(now: datetime) -> list[EndpointStats]:
    """The twenty worst endpoints.

    First those whose oldest delivery has waited longest, then those with the most failed attempts in the last hour,
    then those that fail or are disabled.
    """
    waiting = parked_subscriptions()[:MAX_COMPARED]
    # A lower id is an older delivery.
    oldest = sorted((saga_id, pk) for saga_id, pk, *_ in oldest_parked(dict.fromkeys(waiting, 1)))
    failing = queries.worst(queries.by_subscription(now - PERIOD, now), WORST)
    ranked = [*(pk for _, pk in oldest), *(pk for pk, _ in failing)]
    endpoints = _endpoints(ranked)
    troubled = EndpointHealth.objects.filter(recovered_at__isnull=True).order_by("failing_since", "id")
    found = chain(
        (endpoints[pk] for pk in ranked if pk in endpoints), troubled.values_list("endpoint_id", flat=True)[:WORST]
    )
    return _stats(list(dict.fromkeys(found))[:WORST], now)


def count_troubled() -> dict[str, int]:
    """The number of endpoints that fail, of those among them that are only probed, and of disabled ones."""
    failing = EndpointHealth.objects.filter(recovered_at__isnull=True)
    counts = {
        "failing": failing.filter(disabled_at__isnull=True),
        "probed": failing.filter(disabled_at__isnull=True, breaker_open_since__isnull=False),
        "disabled": failing.filter(disabled_at__isnull=False),
    }
    return {state: rows.values("pk")[:LIMIT].count() for state, rows in counts.items()}


def count_waiting(subscription_ids: Collection[int] | None = None) -> int:
    """Parked deliveries, up to LIMIT."""
    rows = Saga.objects.filter(parked_subscription_id__gt=0)
    if subscription_ids is not None:
        rows = Saga.objects.filter(parked_subscription_id__in=subscription_ids)
    return rows.order_by().values("parked_subscription_id")[:LIMIT].count()


def _stats(endpoint_ids: Sequence[int], now: datetime) -> list[EndpointStats]:
    """In the order of `endpoint_ids`, without those that have no subscription."""
    if not endpoint_ids:
        return []
    rows = Subscription.objects.only("id", "endpoint_id", "callback_url", "event_type")
    rows = rows.filter(endpoint_id__in=endpoint_ids).order_by("id")
    by_endpoint: dict[int, list[Subscription]] = defaultdict(list)
    for row in rows[: MAX_SUBSCRIPTIONS * len(endpoint_ids)]:
        by_endpoint[endpoint_id(row)].append(row)
    ids = {row.pk for row in chain.from_iterable(by_endpoint.values())}
    open_jobs = _open_jobs()
    parts = queries.in_two_parts(ids, now - PERIOD, now - RATE_PERIOD, now)
    health = {row.endpoint_id: row for row in EndpointHealth.objects.filter(endpoint_id__in=endpoint_ids)}
    return [_of(pk, by_endpoint[pk], open_jobs, parts, health.get(pk)) for pk in endpoint_ids if pk in by_endpoint]


def _of(
    pk: int,
    subscriptions: Sequence[Subscription],
    open_jobs: Mapping[int, int],
    parts: Mapping[int, tuple[Summary, Summary]],
    health: EndpointHealth | None,
) -> EndpointStats:
    ids = [row.pk for row in subscriptions]
    waiting = count_waiting(ids)
    earlier = sum((parts[pk][0] for pk in ids if pk in parts), Summary())
    recent = sum((parts[pk][1] for pk in ids if pk in parts), Summary())
    return EndpointStats(
        id=pk,
        url=subscriptions[0].callback_url,
        subscription=subscriptions[0],
        open=sum(open_jobs.get(pk, 0) for pk in ids),
        waiting=waiting,
        oldest_waiting=_oldest(ids) if waiting else None,
        attempts_per_second=recent["attempts"] / RATE_PERIOD.total_seconds(),
        last_hour=earlier + recent,
        health=health,
    )


def _endpoints(subscription_ids: Collection[int]) -> dict[int, int]:
    rows = Subscription.objects.filter(id__in=subscription_ids, endpoint__isnull=False)
    return dict(rows.values_list("id", "endpoint_id"))


def _open_jobs() -> Counter[int]:
    """By subscription."""
    rows = Job.objects.filter(status__in=ACTIVE).order_by()
    return Counter(pk for (pk,) in rows.values_list("saga__subscription_id")[:LIMIT])


def _oldest(subscription_ids: Collection[int]) -> datetime | None:
    """When the oldest parked delivery of these subscriptions was created. A lower id is an older delivery."""
    first = min((saga_id for saga_id, *_ in oldest_parked(dict.fromkeys(subscription_ids, 1))), default=0)
    return Saga.objects.filter(id=first).values_list("created_at", flat=True).first()
