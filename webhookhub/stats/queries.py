"""Stats over a span of time, in steps or by subscription."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet, Sum

from .histogram import DURATION_MS, quantile
from .models import COUNTED, DURATION_COLUMNS, FAILURES, HOUR, MINUTE, Period


@dataclass(frozen=True)
class Summary:
    """The counts of the attempts within a span of time."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, column: str) -> int:
        """One of the counted columns: `attempts`, `completed`, `dead_lettered`, `failed_5xx`, …"""
        return self.counts.get(column, 0)

    @property
    def failed(self) -> int:
        return sum(self[name] for name in FAILURES)

    @property
    def success_rate(self) -> float | None:
        """The share of attempts that succeeded; None without attempts."""
        return self["completed"] / self["attempts"] if self["attempts"] else None

    def duration_ms(self, share: float) -> float | None:
        """A quantile of the durations: 0.5 is the median, 0.95 the 95th percentile."""
        return quantile(DURATION_MS, [self[name] for name in DURATION_COLUMNS], share)

    def __add__(self, other: Summary) -> Summary:
        return Summary({column: self[column] + other[column] for column in COUNTED})


def of_subscription(
    subscription_id: int, since: datetime, middle: datetime, until: datetime
) -> tuple[Summary, Summary]:
    """One subscription's stats before and after `middle`, with one query."""
    rows = _within(since, until).filter(subscription_id=subscription_id)
    later = ExpressionWrapper(Q(starts_at__gte=middle), BooleanField())
    parts = {bool(part): summary for part, summary in _grouped(rows.annotate(later=later), "later")}
    return parts.get(False, Summary()), parts.get(True, Summary())


def last_success(subscription_id: int) -> datetime | None:
    """The start of the last minute or hour with a successful delivery; None if there is none in the kept stats."""
    rows = Period.objects.filter(subscription_id=subscription_id, completed__gt=0)
    for period in (MINUTE, HOUR):  # hours are older than minutes
        starts_at = rows.filter(period=period).order_by("-starts_at").values_list("starts_at", flat=True).first()
        if starts_at is not None:
            return starts_at
    return None


def by_subscription(since: datetime, until: datetime) -> dict[int, Summary]:
    """Subscriptions with at least one attempt, the busiest first."""
    summaries = dict(_grouped(_within(since, until), "subscription_id"))
    return dict(sorted(summaries.items(), key=lambda item: (-item[1]["attempts"], item[0])))


def in_two_parts(
    subscription_ids: Collection[int], since: datetime, middle: datetime, until: datetime
) -> dict[int, tuple[Summary, Summary]]:
    """Of each of these subscriptions with attempts, the stats before and after `middle`, with one query."""
    later = ExpressionWrapper(Q(starts_at__gte=middle), BooleanField())
    rows = _within(since, until).filter(subscription_id__in=subscription_ids).annotate(later=later)
    sums: dict[str, Any] = {f"sum_{name}": Sum(name) for name in COUNTED}
    found: dict[int, dict[bool, Summary]] = defaultdict(dict)
    for row in rows.order_by().values("subscription_id", "later").annotate(**sums):
        summary = Summary({name: int(row[f"sum_{name}"]) for name in COUNTED})
        found[row["subscription_id"]][bool(row["later"])] = summary
    return {pk: (parts.get(False, Summary()), parts.get(True, Summary())) for pk, parts in found.items()}


def worst(summaries: Mapping[int, Summary], limit: int) -> list[tuple[int, Summary]]:
    """The subscriptions with the most failed attempts, then with the lowest success rate.

    Not by rate first: idle endpoints with one failed attempt would hide a large outage.
    """
    failing = [(pk, summary) for pk, summary in summaries.items() if summary.failed]
    return sorted(failing, key=lambda item: (-item[1].failed, item[1].success_rate or 0.0, item[0]))[:limit]


def series(
    since: datetime, until: datetime, step: timedelta, subscription_id: int | None = None
) -> list[tuple[datetime, Summary]]:
    """One summary for each step from `since` on, including empty ones.

    After the rollup only hours are known: they are counted in the step in which they begin.
    """
    rows = _within(since, until)
    if subscription_id is not None:
        rows = rows.filter(subscription_id=subscription_id)
    steps: dict[int, Summary] = defaultdict(Summary)
    for starts_at, summary in _grouped(rows, "starts_at"):
        steps[(starts_at - since) // step] += summary
    count = -((since - until) // step)
    return [(since + index * step, steps[index]) for index in range(count)]


def _within(since: datetime, until: datetime) -> QuerySet[Period]:
    return Period.objects.filter(period__in=(MINUTE, HOUR), starts_at__gte=since, starts_at__lt=until)


def _grouped(rows: QuerySet[Period], column: str) -> Iterator[tuple[Any, Summary]]:
    sums: dict[str, Any] = {f"sum_{name}": Sum(name) for name in COUNTED}
    for row in rows.order_by().values(column).annotate(**sums):
        yield row[column], Summary({name: int(row[f"sum_{name}"]) for name in COUNTED})
