"""Figures per endpoint (callback URL): what is open, what waits, how it responds.

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
from subscriptions.models import EndpointHealth, Subscription

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
    [stats] = _stats([subscription.callback_url], now)
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
    urls = _urls(ranked)
    troubled = EndpointHealth.objects.filter(recovered_at__isnull=True).order_by("failing_since", "id")
    found = chain((urls[pk] for pk in ranked if pk in urls), troubled.values_list("callback_url", flat=True)[:WORST])
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


def _stats(urls: Sequence[str], now: datetime) -> list[EndpointStats]:
    """In the order of `urls`, without those that no subscription has any more."""
    if not urls:
        return []
    rows = Subscription.objects.only("id", "callback_url", "event_type").filter(callback_url__in=urls)
    by_url: dict[str, list[Subscription]] = defaultdict(list)
    for row in rows.order_by("id")[: MAX_SUBSCRIPTIONS * len(urls)]:
        by_url[row.callback_url].append(row)
    ids = {row.pk for row in chain.from_iterable(by_url.values())}
    open_jobs = _open_jobs()
    parts = queries.in_two_parts(ids, now - PERIOD, now - RATE_PERIOD, now)
    health = {row.callback_url: row for row in EndpointHealth.objects.filter(callback_url__in=urls)}
    return [_of(url, by_url[url], open_jobs, parts, health.get(url)) for url in urls if url in by_url]


def _of(
    url: str,
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
        url=url,
        subscription=subscriptions[0],
        open=sum(open_jobs.get(pk, 0) for pk in ids),
        waiting=waiting,
        oldest_waiting=_oldest(ids) if waiting else None,
        attempts_per_second=recent["attempts"] / RATE_PERIOD.total_seconds(),
        last_hour=earlier + recent,
        health=health,
    )


def _urls(subscription_ids: Collection[int]) -> dict[int, str]:
    return dict(Subscription.objects.filter(id__in=subscription_ids).values_list("id", "callback_url"))


def _open_jobs() -> Counter[int]:
    """By subscription."""
    rows = Job.objects.filter(status__in=ACTIVE).order_by()
    return Counter(pk for (pk,) in rows.values_list("saga__subscription_id")[:LIMIT])


def _oldest(subscription_ids: Collection[int]) -> datetime | None:
    """When the oldest parked delivery of these subscriptions was created. A lower id is an older delivery."""
    first = min((saga_id for saga_id, *_ in oldest_parked(dict.fromkeys(subscription_ids, 1))), default=0)
    return Saga.objects.filter(id=first).values_list("created_at", flat=True).first()
