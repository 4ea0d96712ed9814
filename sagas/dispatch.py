"""Creates the job of the next attempt for each due saga.

The job is inserted first, under the attempt's number, and only if the saga has not moved on; then the saga is set
InProgress. The unique keys make this safe to repeat: after a crash between the two statements, or beside another
orchestrator, nothing changes twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from jobs.create import create_first_jobs, create_jobs, find_jobs
from subscriptions.models import Subscription
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.clock import UtcNow
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import one_statement
from webhookhub.logs import Log, enabled, log

from .create import correlation_ids
from .models import Saga
from .transitions import IN_PROGRESS, PENDING, WAITING


@dataclass(frozen=True, slots=True)
class DueSaga:
    id: int
    subscription_id: int
    status: str
    attempt_count: int


def dispatch(batch_size: int, statuses: Collection[str] = WAITING) -> int:
    """Dispatch one batch of each of these waiting statuses; returns how many due sagas were read."""
    return sum(_dispatch(status, batch_size) for status in statuses)


def dispatch_hinted(saga_ids: Sequence[int]) -> int:
    """Dispatch the first attempts of these sagas; returns how many, or 0 if polling has to find out which are due."""
    jobs = create_first_jobs(saga_ids)
    if jobs is None:
        return 0
    in_progress = _start(PENDING, 0, list(jobs))
    _log({saga_id: jobs[saga_id] for saga_id in in_progress}, 1)
    return len(saga_ids)


def _dispatch(status: str, batch_size: int) -> int:
    due = [DueSaga(*row) for row in _due(status=status, limit=Limit(batch_size))]
    if not due:
        return 0
    routable = {pk for (pk,) in _routable(ids=list({saga.subscription_id for saga in due}))}
    held: list[DueSaga] = []
    for attempt_count, sagas in _by_attempt_count(due).items():
        started = [saga.id for saga in sagas if saga.subscription_id in routable]
        jobs = create_jobs(started, status, attempt_count) if started else {}
        others = [saga for saga in sagas if saga.subscription_id not in routable]
        # A job that was created before its subscription was disabled may be running: its saga must follow it.
        jobs |= find_jobs([saga.id for saga in others], attempt_count + 1)
        held += [saga for saga in others if saga.id not in jobs]
        in_progress = _start(status, attempt_count, list(jobs))
        _log({saga_id: jobs[saga_id] for saga_id in in_progress}, attempt_count + 1)
    _postpone(held)
    return len(due)


_due = CompiledSelect(
    lambda status, limit: Saga.objects.due(status, UtcNow()).values_list(*(field.name for field in fields(DueSaga)))[
        :limit
    ]
)
_routable = CompiledSelect(lambda ids: Subscription.objects.routable().filter(id__in=ids).values_list("id"))


def _start(status: str, attempt_count: int, saga_ids: Sequence[int]) -> Collection[int]:
    """Compare-and-set to InProgress: same status, same attempt_count. Returns the ids of the sagas that changed."""
    if not saga_ids:
        return []
    values = {"ids": saga_ids, "status": status, "attempt_count": attempt_count}
    if len(saga_ids) == 1:
        return saga_ids if one_statement(lambda: _to_in_progress(**values)) else []
    now = clock.now()
    changed = one_statement(lambda: _to_in_progress_at(now=now, **values))
    if changed == len(saga_ids):
        return saga_ids
    return _started_at(saga_ids, attempt_count, now) if changed else []


def _started_at(ids: Collection[int], attempt_count: int, now: datetime) -> set[int]:
    """Of sagas that several orchestrators have started, those that carry this one's time."""
    sagas = Saga.objects.filter(id__in=ids, status=IN_PROGRESS, attempt_count=attempt_count, updated_at=now)
    return set(sagas.values_list("id", flat=True))


def _by_attempt_count(sagas: Sequence[DueSaga]) -> dict[int, list[DueSaga]]:
    groups: dict[int, list[DueSaga]] = defaultdict(list)
    for saga in sagas:
        groups[saga.attempt_count].append(saga)
    return groups


def _waiting(ids: Any, status: Any, attempt_count: Any) -> QuerySet[Saga]:
    return Saga.objects.filter(id__in=ids, status=status, attempt_count=attempt_count)


_to_in_progress = CompiledUpdate(
    lambda **values: (_waiting(**values), {"status": IN_PROGRESS, "updated_at": UtcNow()}),
)
_to_in_progress_at = CompiledUpdate(
    lambda now, **values: (_waiting(**values), {"status": IN_PROGRESS, "updated_at": now}),
)


def _postpone(sagas: Sequence[DueSaga]) -> None:
    """Move sagas of disabled subscriptions away from the head of the index; no attempt is counted."""
    if not sagas:
        return
    now = clock.now()
    waiting = Saga.objects.filter(id__in=[saga.id for saga in sagas], status=sagas[0].status, next_attempt_at__lte=now)
    one_statement(lambda: waiting.update(next_attempt_at=now + hub().postpone, updated_at=now))
    if enabled(Log.SAGA_POSTPONED):
        known = correlation_ids.of([saga.id for saga in sagas])
        for saga in sagas:
            log(
                Log.SAGA_POSTPONED,
                correlation_id=known[saga.id],
                saga_id=saga.id,
                subscription_id=saga.subscription_id,
                delivery_status=saga.status,
            )


def _log(job_ids: Mapping[int, int], attempt_no: int) -> None:
    """`job_ids` are the jobs of the sagas that have started."""
    if not job_ids or not enabled(Log.SAGA_DISPATCHED):
        return
    known = correlation_ids.of(job_ids)
    for saga_id, job_id in job_ids.items():
        log(
            Log.SAGA_DISPATCHED,
            correlation_id=known[saga_id],
            saga_id=saga_id,
            job_id=job_id,
            attempt_no=attempt_no,
            delivery_status=IN_PROGRESS,
        )
