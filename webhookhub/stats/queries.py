"""The figures as pages and people want them: over a span of time, in steps or by subscription."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet, Sum

from .histogram import DURATION_MS, quantile
from .models import COUNTED, DURATION_COLUMNS, FAILURES, HOUR, MINUTE, Period


@dataclass(frozen=True)
class Summary:
    """What became of the attempts of some span of time."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, column: str) -> int:
        """One of the counted columns: `attempts`, `completed`, `dead_lettered`, `failed_5xx`, …"""
        return self.counts.get(column, 0)

    @property
    def failed(self) -> int:
        return sum(self[name] for name in FAILURES)

    @property
    def success_rate(self) -> float | None:
        """The share of attempts that succeeded; None if there was none."""
        return self["completed"] / self["attempts"] if self["attempts"] else None

    @property
    def mean_ms(self) -> float | None:
        return self["duration_ms"] / self["attempts"] if self["attempts"] else None

    def duration_ms(self, share: float) -> float | None:
        """How long `share` of the requests took at most: 0.5 is the median, 0.95 the 95th percentile."""
        return quantile(DURATION_MS, [self[name] for name in DURATION_COLUMNS], share)

    def __add__(self, other: Summary) -> Summary:
        return Summary({column: self[column] + other[column] for column in COUNTED})


def overall(since: datetime, until: datetime) -> Summary:
    return sum((summary for _, summary in _grouped(_within(since, until), "period")), Summary())


def of_subscription(
    subscription_id: int, since: datetime, middle: datetime, until: datetime
) -> tuple[Summary, Summary]:
    """What became of one subscription's attempts up to the middle, and from there on: in one reading of the rows."""
    rows = _within(since, until).filter(subscription_id=subscription_id)
    later = ExpressionWrapper(Q(starts_at__gte=middle), BooleanField())
    found = {bool(part): summary for part, summary in _grouped(rows.annotate(later=later), "later")}
    return found.get(False, Summary()), found.get(True, Summary())


def last_success(subscription_id: int) -> datetime | None:
    """When the latest minute began in which something was delivered, or the hour; None: longer ago than is kept."""
    rows = Period.objects.filter(subscription_id=subscription_id, completed__gt=0)
    for period in (MINUTE, HOUR):  # what is kept by the hour is older than what is kept by the minute
        begun = rows.filter(period=period).order_by("-starts_at").values_list("starts_at", flat=True).first()
        if begun is not None:
            return begun
    return None


def by_subscription(since: datetime, until: datetime) -> dict[int, Summary]:
    """Subscriptions with at least one attempt, the busiest first."""
    found = dict(_grouped(_within(since, until), "subscription_id"))
    return dict(sorted(found.items(), key=lambda item: (-item[1]["attempts"], item[0])))


def worst(summaries: Mapping[int, Summary], most: int) -> list[tuple[int, Summary]]:
    """Of those, the ones with most failed attempts; of equal ones, those whose attempts fail more often.

    Not by the rate first: a few idle ones, which failed once of once, would hide a large outage.
    """
    failing = [(id, summary) for id, summary in summaries.items() if summary.failed]
    return sorted(failing, key=lambda item: (-item[1].failed, item[1].success_rate or 0.0, item[0]))[:most]


def series(
    since: datetime, until: datetime, step: timedelta, subscription_id: int | None = None
) -> list[tuple[datetime, Summary]]:
    """One summary for each step from `since` on, empty ones included.

    What is older than the minutes that are kept is known by the hour: it falls into the step in which its hour begins.
    """
    rows = _within(since, until)
    if subscription_id is not None:
        rows = rows.filter(subscription_id=subscription_id)
    steps: dict[int, Summary] = defaultdict(Summary)
    for starts_at, summary in _grouped(rows, "starts_at"):
        steps[(starts_at - since) // step] += summary
    count = -((since - until) // step)
    return [(since + number * step, steps[number]) for number in range(count)]


def _within(since: datetime, until: datetime) -> QuerySet[Period]:
    return Period.objects.filter(period__in=(MINUTE, HOUR), starts_at__gte=since, starts_at__lt=until)


def _grouped(rows: QuerySet[Period], column: str) -> Iterator[tuple[Any, Summary]]:
    sums: dict[str, Any] = {f"sum_{name}": Sum(name) for name in COUNTED}
    for row in rows.order_by().values(column).annotate(**sums):
        yield row[column], Summary({name: int(row[f"sum_{name}"]) for name in COUNTED})
