"""Creates the job of the next attempt for each due saga, as far as its endpoint may have one now; parks the others.

The job is inserted first, under the attempt's number, and only if the saga has not moved on; then the saga is set
InProgress. The unique keys make this safe to repeat: after a crash between the two statements, or beside another
orchestrator, nothing changes twice. A parked saga is made due first, and then dispatched like any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db.models import QuerySet

from jobs.create import create_first_jobs, create_jobs, find_jobs
from webhookhub.db import clock
from webhookhub.db.clock import UtcNow
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import one_statement
from webhookhub.logs import Log, enabled, log
from webhookhub.runner.hints import Held

from .create import correlation_ids, subscription_ids
from .flow import Admission, Flow
from .models import Saga
from .parking import oldest_parked, park, unpark
from .transitions import IN_PROGRESS, PENDING, WAITING


@dataclass(frozen=True, slots=True)
class DueSaga:
    id: int
    subscription_id: int
    status: str
    attempt_count: int


def dispatch(
    batch_size: int,
    statuses: Collection[str] = WAITING,
    flow: Flow | None = None,
    started: Collection[int] = frozenset(),
) -> int:
    """Dispatch one batch of each of these waiting statuses; returns how many due sagas were read.

    Not those that this process has `started` and will set InProgress, nor those that it has queued.
    """
    flow = flow or Flow(unlimited=True)
    return sum(_dispatch(status, batch_size, flow, started) for status in statuses)


class StartedSagas:
    """Sagas whose first jobs were created for hints. They are set InProgress together: one statement serves many.

    Until then they look as after a crash between the two statements of a dispatch: any poll sets them InProgress.
    """

    def __init__(self) -> None:
        self._sagas = Held()
        self._jobs: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._sagas)

    @property
    def ids(self) -> Collection[int]:
        return self._jobs.keys()

    def add(self, jobs: Mapping[int, int]) -> None:
        """`jobs` are the jobs of the sagas (saga id → job id)."""
        self._sagas.add(list(jobs))
        self._jobs |= jobs

    def due(self, batch_size: int) -> bool:
        return self._sagas.due(batch_size)

    def idle_for(self) -> float:
        return self._sagas.idle_for()

    def follow(self, batch_size: int) -> None:
        """Sets the first of them InProgress."""
        if ids := self._sagas.first(batch_size):
            follow({pk: self._jobs[pk] for pk in ids}, PENDING, 0)
            self._sagas.remove(ids)
            for pk in ids:
                del self._jobs[pk]


def dispatch_hinted(saga_ids: Sequence[int], flow: Flow | None = None, started: StartedSagas | None = None) -> int:
    """Dispatch the first attempts of these sagas; returns how many, or 0 if polling has to find out which are due.

    With `started`, the caller sets them InProgress later.
    """
    flow = flow or Flow(unlimited=True)
    subscriptions = subscription_ids.of(saga_ids)
    go, wait = flow.split(list(subscriptions), subscriptions.__getitem__)
    if go and not _start_first({saga_id: subscriptions[saga_id] for saga_id in go}, flow, started):
        return 0
    queued = flow.queue([(saga_id, subscriptions[saga_id]) for saga_id in wait])
    return len(saga_ids) if len(queued) == len(wait) else 0


def dispatch_queued(batch_size: int, flow: Flow, started: StartedSagas | None = None) -> int | None:
    """Dispatch queued sagas whose endpoints may have further attempts; returns how many.

    None if some have changed meanwhile: polling has to find out which.
    """
    queued = flow.dequeue(batch_size)
    if queued and not _start_first({each.id: each.subscription_id for each in queued}, flow, started):
        return None
    return len(queued)


def park_overdue(flow: Flow) -> None:
    """Park queued sagas whose endpoints are slower than was expected."""
    if overdue := [DueSaga(each.id, each.subscription_id, PENDING, 0) for each in flow.queues.overdue()]:
        _park(overdue, PENDING)
        flow.note_parked([saga.subscription_id for saga in overdue])


def _start_first(subscriptions: Mapping[int, int], flow: Flow, started: StartedSagas | None) -> bool:
    """Create the first jobs of these sagas (saga id → subscription id). False if not all of them could be created."""
    jobs = create_first_jobs(list(subscriptions))
    if jobs is None:
        return False
    flow.note_opened((subscriptions[saga_id], job_id) for saga_id, job_id in jobs.items())
    if started is None:
        follow(jobs, PENDING, 0)
    else:
        started.add(jobs)
    return True


def admit(batch_size: int, flow: Flow) -> int:
    """Dispatch one batch of parked sagas whose endpoints may have further attempts; returns how many."""
    flow.sweep()
    admissions = flow.admissions(batch_size)
    limits = {pk: admission.limit for admission in admissions for pk in admission.subscription_ids}
    if not limits:
        return 0
    routable = flow.routable(limits)
    rows = [DueSaga(*row) for row in oldest_parked({pk: limits[pk] for pk in limits if pk in routable})]
    by_subscription: dict[int, list[DueSaga]] = defaultdict(list)
    for saga in rows:
        by_subscription[saga.subscription_id].append(saga)
    admitted = [saga for admission in admissions for saga in _oldest(admission, by_subscription, flow)]
    for status in WAITING:
        waiting = [saga for saga in admitted if saga.status == status]
        unpark([saga.id for saga in waiting], status)
        _start_attempts(waiting, status, flow)
    return len(admitted)


def _oldest(admission: Admission, parked: Mapping[int, Sequence[DueSaga]], flow: Flow) -> list[DueSaga]:
    """The oldest parked sagas of the endpoint, whichever subscription they belong to."""
    sagas = sorted((saga for pk in admission.subscription_ids for saga in parked.get(pk, ())), key=attrgetter("id"))
    flow.note_admitted(admission, len(sagas))
    return sagas[: admission.limit]


def _dispatch(status: str, batch_size: int, flow: Flow, started: Collection[int]) -> int:
    known = {*started, *flow.queues.ids} if status == PENDING else ()
    rows = [DueSaga(*row) for row in _due(status=status, limit=Limit(batch_size + len(known)))]
    due = [saga for saga in rows if saga.id not in known][:batch_size]
    if not due:
        return 0
    routable = flow.routable({saga.subscription_id for saga in due})
    go, wait = flow.split([saga for saga in due if saga.subscription_id in routable], attrgetter("subscription_id"))
    _start_attempts(go, status, flow)
    if status == PENDING:
        first = [(saga.id, saga.subscription_id) for saga in wait if not saga.attempt_count]
        queued = flow.queue(first)
        wait = [saga for saga in wait if saga.id not in queued]
    off = [saga for saga in due if saga.subscription_id not in routable]
    _park([*wait, *off], status)
    flow.note_parked([saga.subscription_id for saga in wait])
    flow.note_off({saga.subscription_id for saga in off})
    return len(due)


def _start_attempts(sagas: Sequence[DueSaga], status: str, flow: Flow) -> None:
    for attempt_count, group in _by_attempt_count(sagas).items():
        jobs = create_jobs([saga.id for saga in group], status, attempt_count)
        flow.note_opened((saga.subscription_id, jobs[saga.id]) for saga in group if saga.id in jobs)
        follow(jobs, status, attempt_count)


def follow(jobs: Mapping[int, int], status: str, attempt_count: int) -> Collection[int]:
    """Set the sagas of these jobs (saga id → job id) InProgress; returns the ids of the sagas that changed."""
    in_progress = _start(status, attempt_count, list(jobs))
    _log({saga_id: jobs[saga_id] for saga_id in in_progress}, attempt_count + 1)
    return in_progress


def _park(sagas: Sequence[DueSaga], status: str) -> None:
    parked: list[int] = []
    for attempt_count, group in _by_attempt_count(sagas).items():
        # A job that was created before, by a process that then ended, may be running: its saga must follow it.
        jobs = find_jobs([saga.id for saga in group], attempt_count + 1)
        if jobs:
            follow(jobs, status, attempt_count)
        parked += [saga.id for saga in group if saga.id not in jobs]
    park(parked, status)


_due = CompiledSelect(
    lambda status, limit: Saga.objects.due(status, UtcNow()).values_list(*(field.name for field in fields(DueSaga)))[
        :limit
    ]
)


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
