"""Creates the job of the next attempt for each due saga.

The job is inserted first, under the attempt's number, and only if the saga has not moved on; then the saga is set
InProgress. The unique keys make this safe to repeat: after a crash between the two statements, or beside another
orchestrator, nothing changes twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from jobs.create import create_jobs, find_jobs
from subscriptions.models import Subscription
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import one_statement
from webhookhub.logs import Log, enabled, log

from .models import Saga
from .transitions import IN_PROGRESS, WAITING


@dataclass(frozen=True, slots=True)
class DueSaga:
    id: int
    subscription_id: int
    status: str
    attempt_count: int
    next_attempt_at: datetime

    @property
    def attempt_no(self) -> int:
        return self.attempt_count + 1


def dispatch(batch_size: int, statuses: Collection[str] = WAITING) -> int:
    """Dispatch one batch of each of these waiting statuses; returns how many due sagas were read."""
    if not statuses:
        return 0
    now = clock.now()
    return sum(_dispatch(status, batch_size, now) for status in statuses)


def _dispatch(status: str, batch_size: int, now: datetime) -> int:
    due = [DueSaga(*row) for row in _due(status=status, now=now, limit=Limit(batch_size))]
    if not due:
        return 0
    routable = {pk for (pk,) in _routable(ids=list({saga.subscription_id for saga in due}))}
    started = [saga for saga in due if saga.subscription_id in routable]
    held = [saga for saga in due if saga.subscription_id not in routable]
    for attempt_count, ids in _by_attempt_count(started).items():
        create_jobs(ids, status, attempt_count, now)
    if held:
        # A job that was created before its subscription was disabled may be running: its saga must follow it.
        existing = find_jobs([(saga.id, saga.attempt_no) for saga in held])
        started += [saga for saga in held if (saga.id, saga.attempt_no) in existing]
        _postpone([saga for saga in held if (saga.id, saga.attempt_no) not in existing], now)
    in_progress = _start(status, started, now)
    _log([saga for saga in started if saga.id in in_progress])
    return len(due)


_due = CompiledSelect(
    lambda status, now, limit: Saga.objects.due(status, now).values_list(*(field.name for field in fields(DueSaga)))[
        :limit
    ]
)
_routable = CompiledSelect(lambda ids: Subscription.objects.routable().filter(id__in=ids).values_list("id"))


def _start(status: str, sagas: Sequence[DueSaga], now: datetime) -> set[int]:
    """Compare-and-set to InProgress: same status, same attempt_count. Returns the ids of the sagas that changed."""
    started: set[int] = set()
    for attempt_count, ids in _by_attempt_count(sagas).items():
        values = {"ids": ids, "status": status, "attempt_count": attempt_count, "now": now}
        changed = one_statement(lambda values=values: _to_in_progress(**values))  # type: ignore[misc]
        if changed == len(ids):
            started.update(ids)
        elif changed:
            started.update(_started_at(ids, attempt_count, now))
    return started


def _started_at(ids: Collection[int], attempt_count: int, now: datetime) -> set[int]:
    """Of sagas that several orchestrators have started, those that carry this one's time."""
    sagas = Saga.objects.filter(id__in=ids, status=IN_PROGRESS, attempt_count=attempt_count, updated_at=now)
    return set(sagas.values_list("id", flat=True))


def _by_attempt_count(sagas: Sequence[DueSaga]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for saga in sagas:
        groups[saga.attempt_count].append(saga.id)
    return groups


_to_in_progress = CompiledUpdate(
    lambda ids, status, attempt_count, now: (
        Saga.objects.filter(id__in=ids, status=status, attempt_count=attempt_count),
        {"status": IN_PROGRESS, "updated_at": now},
    )
)


def _postpone(sagas: Sequence[DueSaga], now: datetime) -> None:
    """Move sagas of disabled subscriptions away from the head of the index; no attempt is counted."""
    if not sagas:
        return
    waiting = Saga.objects.filter(id__in=[saga.id for saga in sagas], status=sagas[0].status, next_attempt_at__lte=now)
    one_statement(lambda: waiting.update(next_attempt_at=now + hub().postpone, updated_at=now))
    if enabled(Log.SAGA_POSTPONED):
        correlation_ids = _correlation_ids(sagas)
        for saga in sagas:
            log(
                Log.SAGA_POSTPONED,
                correlation_id=correlation_ids[saga.id],
                saga_id=saga.id,
                subscription_id=saga.subscription_id,
                delivery_status=saga.status,
            )


def _log(sagas: Sequence[DueSaga]) -> None:
    if not sagas or not enabled(Log.SAGA_DISPATCHED):
        return
    job_ids = find_jobs([(saga.id, saga.attempt_no) for saga in sagas])
    correlation_ids = _correlation_ids(sagas)
    for saga in sagas:
        log(
            Log.SAGA_DISPATCHED,
            correlation_id=correlation_ids[saga.id],
            saga_id=saga.id,
            job_id=job_ids.get((saga.id, saga.attempt_no)),
            attempt_no=saga.attempt_no,
            delivery_status=IN_PROGRESS,
        )


def _correlation_ids(sagas: Sequence[DueSaga]) -> dict[int, str]:
    return dict(Saga.objects.filter(id__in=[saga.id for saga in sagas]).values_list("id", "event__correlation_id"))
