"""What is open at this moment, counted along an index and only up to a limit: the same cost at any size of table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from events.models import Event, RoutingInbox
from jobs.models import Job
from jobs.states import ACTIVE, FINISHED
from sagas.models import Saga
from sagas.transitions import STATUSES, TERMINAL, WAITING
from webhookhub.conf import KINDS
from webhookhub.db import clock
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after
from workflows import words
from workflows.models import Instance, WorkflowInbox

LIMIT = 100_000
# Due for longer than this is late, and not just about to be taken.
GRACE = timedelta(seconds=60)
OPEN = tuple(status for status in STATUSES if status not in TERMINAL)
UNSETTLED = "Unsettled"


@dataclass(frozen=True)
class Open:
    """Numbers that have reached LIMIT mean: at least as many."""

    events_waiting: int
    oldest_event_seconds: float
    deliveries: dict[str, int]
    due: dict[str, int]
    past_due: int
    oldest_due_seconds: float
    jobs: dict[str, int]
    expired_leases: int
    workflow_events_waiting: int
    workflows: dict[str, int]
    workflows_overdue: int
    workflows_for_operators: int
    processes: dict[str, int]
    heartbeat_ages: dict[str, float]


def read() -> Open:
    now = clock.now()
    beats: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind, heartbeat_at in Process.objects.values_list("kind", "heartbeat_at"):
        beats.setdefault(kind, []).append((now - heartbeat_at).total_seconds())
    alive = silent_after().total_seconds()
    return Open(
        events_waiting=_count(RoutingInbox.objects.order_by()),
        oldest_event_seconds=_oldest_event(now),
        deliveries={status: _count(Saga.objects.filter(status=status)) for status in OPEN},
        due={status: _count(Saga.objects.due(status, now).order_by()) for status in WAITING},
        past_due=sum(_count(Saga.objects.due(status, now - GRACE).order_by()) for status in WAITING),
        oldest_due_seconds=_oldest_due(now),
        jobs=_jobs(),
        expired_leases=_count(Job.objects.expired(now).order_by()),
        workflow_events_waiting=_count(WorkflowInbox.objects.order_by()),
        workflows={status: _count(Instance.objects.filter(status=status)) for status in words.OPEN},
        workflows_overdue=sum(_count(Instance.objects.due(status, now - GRACE).order_by()) for status in words.OPEN),
        workflows_for_operators=_count(Instance.objects.filter(needs_operator=True)),
        processes={kind: sum(age <= alive for age in ages) for kind, ages in beats.items()},
        heartbeat_ages={kind: max(0.0, min(ages)) for kind, ages in beats.items() if ages},
    )


def _count(rows: QuerySet[Any]) -> int:
    return rows.values("pk")[:LIMIT].count()


def _jobs() -> dict[str, int]:
    found = {status: _count(Job.objects.filter(status=status)) for status in ACTIVE}
    found[UNSETTLED] = sum(_count(Job.objects.unsettled(status).order_by()) for status in FINISHED)
    return found


def _oldest_due(now: datetime) -> float:
    heads = [Saga.objects.due(status, now).values_list("next_attempt_at", flat=True).first() for status in WAITING]
    return _age(now, min((head for head in heads if head), default=None))


def _oldest_event(now: datetime) -> float:
    first = RoutingInbox.objects.order_by("event_id").values_list("event_id", flat=True).first()
    if first is None:
        return 0.0
    return _age(now, Event.objects.filter(id=first).values_list("created_at", flat=True).first())


def _age(now: datetime, moment: datetime | None) -> float:
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())
