"""The numbers of the overview: stats, and bounded counts of open rows along an index."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Min, Q, QuerySet
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from events.models import RoutingInbox
from sagas.models import Saga
from sagas.transitions import WAITING
from subscriptions.models import Subscription
from webhookhub.conf import KINDS
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after
from webhookhub.stats import endpoints, queries
from webhookhub.stats.endpoints import EndpointStats
from webhookhub.stats.queries import Summary
from workflows.models import Instance

from . import chart, format
from .chart import Chart

# Rows are counted up to this limit.
LIMIT = 10_000
# A delivery is late if it has been due for longer than this.
GRACE = timedelta(seconds=60)
MAX_ENDPOINTS = 5
MAX_PROCESSES = 100
OPEN_WORKFLOWS = {"IN_PROGRESS": _("in progress"), "COMPENSATING": _("compensating")}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Span:
    """A time range of the overview, and the width of the columns of its chart."""

    name: str
    title: Any
    length: timedelta
    step: timedelta

    def bounds(self, now: datetime) -> tuple[datetime, datetime]:
        """Start and end, aligned to steps; the current step is included."""
        until = EPOCH + ((now - EPOCH) // self.step + 1) * self.step
        return until - self.length, until


HOUR = Span("hour", _("last hour"), timedelta(hours=1), timedelta(minutes=1))
DAY = Span("day", _("last 24 hours"), timedelta(hours=24), timedelta(hours=1))
WEEK = Span("week", _("last 7 days"), timedelta(days=7), timedelta(hours=6))
SPANS = (HOUR, DAY, WEEK)


def span_named(name: str | None) -> Span:
    return next((span for span in SPANS if span.name == name), HOUR)


@dataclass(frozen=True)
class Waiting:
    """A count of waiting rows. If it has reached LIMIT, there may be more."""

    count: int = 0
    late: int = 0
    oldest: datetime | None = None

    @property
    def count_text(self) -> str:
        return self._text(self.count)

    @property
    def late_text(self) -> str:
        return self._text(self.late)

    def _text(self, count: int) -> str:
        return format.number(count) + ("+" if self.count >= LIMIT else "")

    def __add__(self, other: Waiting) -> Waiting:
        oldest = min((waiting.oldest for waiting in (self, other) if waiting.oldest), default=None)
        return Waiting(min(self.count + other.count, LIMIT), min(self.late + other.late, LIMIT), oldest)


def numbers(summary: Summary) -> dict[str, str]:
    """A summary as the pages show it."""
    return {
        "attempts": format.number(summary["attempts"]),
        "delivered": format.number(summary["completed"]),
        "failed": format.number(summary.failed),
        "failing": format.number(_failing(summary)),
        "dead": format.number(summary["dead_lettered"]),
        "success": format.percent(summary.success_rate),
        "p50": format.milliseconds(summary.duration_ms(0.5)),
        "p95": format.milliseconds(summary.duration_ms(0.95)),
    }


def endpoint_numbers(stats: EndpointStats, now: datetime) -> dict[str, str]:
    """The figures of an endpoint as the pages show them."""
    waiting = format.number(stats.waiting) + ("+" if stats.waiting >= endpoints.LIMIT else "")
    age = format.duration(now - stats.oldest_waiting) if stats.oldest_waiting else format.NOTHING
    return {
        "state": endpoint_state(stats),
        "open": format.number(stats.open),
        "waiting": waiting,
        "oldest": age,
        "rate": f"{stats.attempts_per_second:.2g}",
        "success": format.percent(stats.success_rate),
        "p95": format.milliseconds(stats.p95_ms),
    }


def endpoint_state(stats: EndpointStats) -> str:
    if stats.is_disabled:
        return gettext("disabled")
    if stats.is_breaker_open:
        return gettext("only probed")
    return gettext("failing") if stats.is_failing else gettext("ok")


def _failing(summary: Summary) -> int:
    """The failed attempts that are retried: all but the last attempt of each dead letter."""
    return max(0, summary.failed - summary["dead_lettered"])


@dataclass(frozen=True)
class Deliveries:
    """The deliveries of a span, and the waiting rows."""

    total: dict[str, str]
    chart: Chart
    due: Waiting
    unrouted: Waiting
    busiest: list[tuple[Subscription, dict[str, str]]]
    worst: list[tuple[Subscription, dict[str, str]]]
    # Independent of the span, for the alerts.
    last_hour_by_endpoint: list[Summary]

    @property
    def last_hour(self) -> Summary:
        return sum(self.last_hour_by_endpoint, Summary())


def deliveries(span: Span, now: datetime) -> Deliveries:
    since, until = span.bounds(now)
    steps = queries.series(since, until, span.step)
    by_subscription = queries.by_subscription(since, until)
    last_hour = by_subscription if span is HOUR else queries.by_subscription(*HOUR.bounds(now))
    worst = dict(queries.worst(by_subscription, MAX_ENDPOINTS))
    busiest = dict(list(by_subscription.items())[:MAX_ENDPOINTS])
    rows = Subscription.objects.only("id", "callback_url", "event_type").in_bulk([*busiest, *worst])

    def rows_of(summaries: dict[int, Summary]) -> list[tuple[Subscription, dict[str, str]]]:
        return [(rows[pk], numbers(summary)) for pk, summary in summaries.items() if pk in rows]

    return Deliveries(
        total=numbers(sum((summary for _, summary in steps), Summary())),
        chart=chart.stacked([(at, _series(summary)) for at, summary in steps]),
        due=due(now),
        unrouted=unrouted(),
        busiest=rows_of(busiest),
        worst=rows_of(worst),
        last_hour_by_endpoint=list(last_hour.values()),
    )


def _series(summary: Summary) -> tuple[int, int, int]:
    return summary["completed"], _failing(summary), summary["dead_lettered"]


def due(now: datetime) -> Waiting:
    return sum((_due(status, now) for status in WAITING), Waiting())


def _due(status: str, now: datetime) -> Waiting:
    rows: QuerySet[Any, Any] = Saga.objects.due(status, now).values("id", "next_attempt_at")[:LIMIT]
    late = Q(next_attempt_at__lte=now - GRACE)
    return Waiting(**rows.aggregate(count=Count("id"), late=Count("id", filter=late), oldest=Min("next_attempt_at")))


def unrouted() -> Waiting:
    return Waiting(RoutingInbox.objects.order_by("event_id").values("event_id")[:LIMIT].count())


def processes(now: datetime) -> list[tuple[Process, bool]]:
    """The processes, and whether each is alive."""
    rows = Process.objects.order_by("kind", "name")[:MAX_PROCESSES]
    return [(process, process.is_alive(now, silent_after())) for process in rows]


def missing(running: list[tuple[Process, bool]]) -> list[str]:
    """The kinds of processes of which none is alive."""
    alive = {process.kind for process, is_alive in running if is_alive}
    return [kind for kind in KINDS if kind not in alive]


def workflows_for_operators() -> Waiting:
    """The workflow runs that need an operator."""
    return Waiting(Instance.objects.filter(needs_operator=True).order_by().values("id")[:LIMIT].count())


def open_workflows() -> dict[str, int]:
    """The number of open workflow runs by the label of their status."""
    rows = Instance.objects.filter(status__in=OPEN_WORKFLOWS).order_by()
    counts = Counter(rows.values_list("status", flat=True)[:LIMIT])
    return {str(label): counts[status] for status, label in OPEN_WORKFLOWS.items() if counts[status]}
