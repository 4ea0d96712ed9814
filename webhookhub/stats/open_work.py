"""Gauges of open work, counted along an index and only up to a limit: the same cost at any size of table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from api.models import ApiKey
from events.models import RoutingInbox
from jobs.models import Job
from jobs.states import ACTIVE, FINISHED
from sagas.models import Saga
from sagas.transitions import STATUSES, TERMINAL, WAITING
from webhookhub.conf import KINDS
from webhookhub.db import clock
from webhookhub.models import Process
from webhookhub.runner.registry import silent_after
from workflows import state
from workflows.models import Instance, WorkflowInbox

from . import catalogue, ready_work
from .catalogue import Metric

LIMIT = 100_000
# Work that has been due for longer is late.
GRACE = timedelta(seconds=60)
OPEN = tuple(status for status in STATUSES if status not in TERMINAL)
UNSETTLED = "Unsettled"


def read() -> dict[Metric, float | dict[str, float]]:
    """The value of each gauge, or its values by label. A count that has reached LIMIT means: at least as many."""
    now = clock.now()
    ages: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind, heartbeat_at in Process.objects.values_list("kind", "heartbeat_at"):
        ages.setdefault(kind, []).append((now - heartbeat_at).total_seconds())
    alive = silent_after().total_seconds()
    late = now - GRACE
    return {
        catalogue.EVENTS_WAITING: _count(RoutingInbox.objects.order_by()),
        catalogue.DELIVERIES: {status: _count(Saga.objects.filter(status=status)) for status in OPEN},
        catalogue.DUE: {status: _count(Saga.objects.due(status, now).order_by()) for status in WAITING},
        catalogue.PAST_DUE: sum(_count(Saga.objects.due(status, late).order_by()) for status in WAITING),
        catalogue.OLDEST_READY: {
            kind: ready_work.age(work, now).total_seconds() for kind, work in ready_work.oldest(now).items()
        },
        catalogue.JOBS: {
            **{status: _count(Job.objects.filter(status=status)) for status in ACTIVE},
            UNSETTLED: sum(_count(Job.objects.unsettled(status).order_by()) for status in FINISHED),
        },
        catalogue.EXPIRED_LEASES: _count(Job.objects.expired(now).order_by()),
        catalogue.WORKFLOW_EVENTS_WAITING: _count(WorkflowInbox.objects.order_by()),
        catalogue.WORKFLOWS: {status: _count(Instance.objects.filter(status=status)) for status in state.OPEN},
        catalogue.WORKFLOWS_OVERDUE: sum(
            _count(Instance.objects.due(status, late).order_by()) for status in state.OPEN
        ),
        catalogue.WORKFLOWS_FOR_OPERATORS: _count(Instance.objects.filter(needs_operator=True)),
        catalogue.KEYS_EXPIRING: _count(ApiKey.objects.expiring(now)),
        catalogue.PROCESSES: {kind: sum(age <= alive for age in of_kind) for kind, of_kind in ages.items()},
        catalogue.HEARTBEAT: {kind: max(0.0, min(of_kind)) for kind, of_kind in ages.items() if of_kind},
        catalogue.COUNT_LIMIT: LIMIT,
    }


def _count(rows: QuerySet[Any]) -> int:
    return rows.values("pk")[:LIMIT].count()
