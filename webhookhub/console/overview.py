"""What the first page shows: kept summaries, and what is open, counted along an index and only up to a limit.

Each part costs the same however long the tables have become.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.models import Count, Min, Q, QuerySet

from events.models import Event, RoutingInbox
from sagas.models import Saga
from sagas.transitions import WAITING
from subscriptions.models import Subscription
from webhookhub.conf import KINDS
from webhookhub.db import clock
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after
from webhookhub.stats import queries
from webhookhub.stats.queries import Summary

from . import chart
from .chart import Chart
from .periods import HOUR, Span

# More than this is told as "more than".
LIMIT = 10_000
# Due for longer than this is late, and not just about to be taken.
GRACE = timedelta(seconds=60)
MOST_ENDPOINTS = 5
MOST_PROCESSES = 100
SERIES = ("delivered", "failing", "dead")
OPEN_WORKFLOWS = ("IN_PROGRESS", "COMPENSATING")


@dataclass(frozen=True)
class Waiting:
    """Rows that wait for something; `number` has reached LIMIT if there may be more."""

    number: int = 0
    late: int = 0
    oldest: datetime | None = None

    @property
    def many(self) -> bool:
        return self.number >= LIMIT

    def __add__(self, other: Waiting) -> Waiting:
        oldest = min((each.oldest for each in (self, other) if each.oldest), default=None)
        return Waiting(min(self.number + other.number, LIMIT), min(self.late + other.late, LIMIT), oldest)


@dataclass(frozen=True)
class Endpoint:
    id: int
    callback_url: str
    event_type: str
    summary: Summary


@dataclass(frozen=True)
class Running:
    process: Process
    alive: bool


@dataclass(frozen=True)
class Deliveries:
    """What became of deliveries over a span of time, and what waits."""

    total: Summary
    chart: Chart
    due: Waiting
    unrouted: Waiting
    busiest: list[Endpoint]
    worst: list[Endpoint]
    # Whatever the span: whether the hub is well is a question about now.
    last_hour_by_endpoint: list[Summary]

    @property
    def last_hour(self) -> Summary:
        return sum(self.last_hour_by_endpoint, Summary())


def deliveries(span: Span, now: datetime) -> Deliveries:
    since, until = span.bounds(now)
    steps = queries.series(since, until, span.step)
    by_subscription = queries.by_subscription(since, until)
    last_hour = by_subscription if span is HOUR else queries.by_subscription(*HOUR.bounds(now))
    worst = dict(queries.worst(by_subscription, MOST_ENDPOINTS))
    busiest = dict(list(by_subscription.items())[:MOST_ENDPOINTS])
    known = Subscription.objects.only("id", "callback_url", "event_type").in_bulk([*busiest, *worst])

    def endpoints(summaries: dict[int, Summary]) -> list[Endpoint]:
        return [
            Endpoint(id, known[id].shown_url, known[id].event_type, summary)
            for id, summary in summaries.items()
            if id in known
        ]

    return Deliveries(
        total=sum((summary for _, summary in steps), Summary()),
        chart=chart.stacked(SERIES, [(moment, _pieces(summary)) for moment, summary in steps]),
        due=due(now),
        unrouted=unrouted(),
        busiest=endpoints(busiest),
        worst=endpoints(worst),
        last_hour_by_endpoint=list(last_hour.values()),
    )


def _pieces(summary: Summary) -> tuple[int, int, int]:
    """Each attempt once: the one that ended a delivery in the dead letters is not counted as failing too."""
    dead = summary["dead_lettered"]
    return summary["completed"], max(0, summary.failed - dead), dead


def due(now: datetime) -> Waiting:
    """Deliveries whose time has come: together, those past due, and the time of the oldest."""
    return sum((_due(status, now) for status in WAITING), Waiting())


def _due(status: str, now: datetime) -> Waiting:
    rows: QuerySet[Any, Any] = Saga.objects.due(status, now).values("id", "next_attempt_at")[:LIMIT]
    found = rows.aggregate(
        number=Count("id"), late=Count("id", filter=Q(next_attempt_at__lte=now - GRACE)), oldest=Min("next_attempt_at")
    )
    return Waiting(**found)


def unrouted() -> Waiting:
    """Events that no router has seen yet."""
    rows: QuerySet[Any, Any] = RoutingInbox.objects.order_by("event_id").values("event_id")[:LIMIT]
    found = rows.aggregate(number=Count("event_id"), first=Min("event_id"))
    if found["first"] is None:
        return Waiting()
    oldest = Event.objects.filter(id=found["first"]).values_list("created_at", flat=True).first()
    return Waiting(found["number"], 0, oldest)


def processes(now: datetime) -> list[Running]:
    rows = Process.objects.order_by("kind", "name")[:MOST_PROCESSES]
    return [Running(process, process.is_alive(now, silent_after())) for process in rows]


def missing(running: list[Running]) -> list[str]:
    """The kinds of loops of which none is alive."""
    alive = {each.process.kind for each in running if each.alive}
    return [kind for kind in KINDS if kind not in alive]


def open_workflows() -> dict[str, int] | None:
    """How many business workflows are open, by their state; None where there are no workflows at all."""
    model = next((each for each in apps.get_models() if each._meta.label_lower == "workflows.instance"), None)
    if model is None:
        return None
    rows = model._default_manager.filter(status__in=OPEN_WORKFLOWS).order_by()
    counts = Counter(rows.values_list("status", flat=True)[:LIMIT])
    return {status: counts[status] for status in OPEN_WORKFLOWS if counts[status]}


def now() -> datetime:
    return clock.now()
