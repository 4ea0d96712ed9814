"""Applies the results of finished jobs to their sagas, each exactly once.

A saga accepts only the result of its current attempt, and a job is marked settled only after its saga has applied the
result. After a crash in between, the job is still unsettled and running this again changes nothing twice. The
transaction that marks jobs also counts them, and its process logs them: each result is counted and logged once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from deadletters.create import NewDeadLetter, create_dead_letters
from jobs.models import Job
from jobs.states import FINISHED
from subscriptions.health import GONE_CODE
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.db.clock import UtcNow
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import in_transaction, one_statement
from webhookhub.logs import Log, enabled, log
from webhookhub.runner.hints import Held
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult

from .dispatch import follow
from .flow import SettledResult
from .models import Saga
from .policy import Bounds, Decision, Result, RetryPolicy, decide
from .transitions import COMPLETED, DEAD_LETTERED, IN_PROGRESS, PENDING_RETRY, WAITING


class FinishedJob(NamedTuple):
    id: int
    saga_id: int
    attempt_no: int
    error_code: str | None
    attempt_at: datetime
    finished_at: datetime
    retry_after: datetime | None
    worker_id: str
    lease_until: datetime | None
    duration_ms: int | None
    lease_resets: int


class SagaRow(NamedTuple):
    id: int
    status: str
    attempt_count: int
    max_retry_limit: int
    base_delay: timedelta
    retry_delays: tuple[int, ...] | None
    event_id: int
    subscription_id: int
    correlation_id: str
    event_created_at: datetime | None
    generation: int
    created_at: datetime

    def awaits(self, job: FinishedJob) -> bool:
        return self.status == IN_PROGRESS and self.attempt_count == job.attempt_no - 1

    def lags_behind(self, job: FinishedJob) -> bool:
        return self.status in WAITING and self.attempt_count == job.attempt_no - 1

    def has_applied(self, job: FinishedJob) -> bool:
        return self.attempt_count >= job.attempt_no

    def completed_by(self, job: FinishedJob) -> SagaRow:
        return self._replace(status=COMPLETED, attempt_count=job.attempt_no)

    def outcome(self, job: FinishedJob) -> str:
        """The stats outcome of a result that this saga has applied."""
        if job.error_code is None:
            return attempts.COMPLETED
        # A delivery that was abandoned after this result has attempts left.
        ended = self.status == DEAD_LETTERED and self.attempt_count == job.attempt_no == self.max_retry_limit
        return attempts.DEAD_LETTERED if ended else attempts.RETRIED

    @property
    def requested_at(self) -> datetime:
        # An event that was inserted by SQL may have a zero date, which is read as None.
        return self.created_at if self.generation or self.event_created_at is None else self.event_created_at


JOB_COLUMNS = len(FinishedJob._fields)
# Of SagaRow, in its order.
SAGA_COLUMNS = (
    "id",
    "status",
    "attempt_count",
    "max_retry_limit",
    "base_delay",
    "retry_delays",
    "event_id",
    "subscription_id",
    "event__correlation_id",
    "event__created_at",
    "generation",
    "created_at",
)


class Settlement(NamedTuple):
    job: FinishedJob
    saga: SagaRow
    decision: Decision


class Settled(NamedTuple):
    """How many results were applied, and those of them that this process has marked: each exactly once."""

    applied: int
    marked: Sequence[Settlement]


OnResults = Callable[[Sequence[SettledResult]], None]
# Gets the ids of subscriptions whose endpoints have responded with 410.
OnGone = Callable[[Collection[int]], None]


class Settler:
    """Remembers how far it has read, so that results that cannot be applied yet do not block later ones."""

    def __init__(
        self, on_results: OnResults = lambda results: None, on_gone: OnGone = lambda subscription_ids: None
    ) -> None:
        """`on_results` gets each result that was settled here, once; if the process ends before, it gets none.

        `on_gone` is called before a result is marked settled, and again if the process ends in between.
        """
        self._on_results = on_results
        self._on_gone = on_gone
        self._after = dict.fromkeys(FINISHED, 0)
        # Hinted results, which are settled together: each statement then serves many of them.
        self.hinted = Held()

    def settle_hinted(self, batch_size: int) -> int:
        """Settle the first of the hinted jobs, if they have finished; returns how many were settled."""
        ids = self.hinted.first(batch_size)
        rows = _hinted_rows(ids=ids, statuses=FINISHED) if ids else []
        sagas = [SagaRow(*row[JOB_COLUMNS:]) for row in rows]
        jobs = [FinishedJob(*row[:JOB_COLUMNS]) for row in rows]
        settled = self._apply(jobs, {saga.id: saga for saga in sagas})
        self.hinted.remove(ids)
        return settled

    def settle(self, batch_size: int, statuses: Collection[str] = FINISHED) -> int:
        """Settle one batch of each of these finished statuses; returns how many were settled, or 1 if more remain."""
        for status in self._after.keys() - statuses:
            self._after[status] = 0
        return sum(self._settle(status, batch_size) for status in statuses)

    def _settle(self, status: str, batch_size: int) -> int:
        jobs = _unsettled(status, self._after[status], batch_size)
        more = len(jobs) == batch_size
        settled = self._apply(jobs)
        self._after[status] = jobs[-1].id if more else 0
        return settled or int(more)

    def _apply(self, jobs: Sequence[FinishedJob], sagas: dict[int, SagaRow] | None = None) -> int:
        settled = _settle(jobs, sagas, self._on_gone)
        self._on_results(
            [
                SettledResult(item.job.id, item.saga.subscription_id, item.job.error_code, item.job.duration_ms)
                for item in settled.marked
            ]
        )
        return settled.applied


_unsettled_rows = CompiledSelect(
    lambda status, after_id, limit: Job.objects.unsettled(status, after_id).values_list(*FinishedJob._fields)[:limit]
)


_hinted_rows = CompiledSelect(
    lambda ids, statuses: (
        Job.objects.filter(id__in=ids, settled_at__isnull=True, status__in=statuses)
        .order_by("id")
        .values_list(*FinishedJob._fields, *(f"saga__{column}" for column in SAGA_COLUMNS))
    )
)


def _unsettled(status: str, after_id: int, limit: int) -> list[FinishedJob]:
    return [FinishedJob(*row) for row in _unsettled_rows(status=status, after_id=after_id, limit=Limit(limit))]


def _settle(
    jobs: Sequence[FinishedJob],
    sagas: dict[int, SagaRow] | None = None,
    on_gone: OnGone = lambda subscription_ids: None,
) -> Settled:
    """Settle these jobs; `sagas` are their sagas, where they have been read with them."""
    if not jobs:
        return Settled(0, [])
    sagas = _sagas(jobs) if sagas is None else sagas
    jobs = [job for job in jobs if job.saga_id in sagas]
    sagas |= _follow([job for job in jobs if sagas[job.saga_id].lags_behind(job)], sagas)
    settlements = _decide([job for job in jobs if sagas[job.saga_id].awaits(job)], sagas)
    by_status: dict[str, list[Settlement]] = defaultdict(list)
    for item in settlements:
        by_status[item.decision.status].append(item)
    completed = by_status[COMPLETED]
    changed = _complete([(item.saga.id, item.job.attempt_no) for item in completed])
    if failed := by_status[PENDING_RETRY]:
        _retry(failed)
    if exhausted := by_status[DEAD_LETTERED]:
        _dead_letter(exhausted, clock.now())
    if changed == len(settlements):
        applied = sagas | {item.saga.id: item.saga.completed_by(item.job) for item in completed}
    else:
        # Read again: another orchestrator may have changed some of them.
        applied = _sagas(jobs)
    settled = {job.id: _attempt(job, applied[job.saga_id]) for job in jobs if applied[job.saga_id].has_applied(job)}
    if gone := {settled[job.id].subscription_id for job in jobs if job.id in settled and job.error_code == GONE_CODE}:
        on_gone(gone)
    marked = _mark(settled)
    decided = {item.job.id for item in settlements}
    # Decided by another process, which has not marked them.
    others = _decide([job for job in jobs if job.id in marked and job.id not in decided], applied)
    newly_marked = [item for item in [*settlements, *others] if item.job.id in marked]
    _log(newly_marked)
    return Settled(len(settled), newly_marked)


def _follow(jobs: Sequence[FinishedJob], sagas: Mapping[int, SagaRow]) -> dict[int, SagaRow]:
    """Set waiting sagas InProgress whose job exists; returns those that have changed.

    Their orchestrator has ended between the two statements of a dispatch, and since then they may have been parked.
    """
    groups: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for job in jobs:
        saga = sagas[job.saga_id]
        groups[saga.status, saga.attempt_count][saga.id] = job.id
    changed = [pk for (status, count), group in groups.items() for pk in follow(group, status, count)]
    return {pk: sagas[pk]._replace(status=IN_PROGRESS) for pk in changed}


def _attempt(job: FinishedJob, saga: SagaRow) -> AttemptResult:
    return AttemptResult(
        saga.subscription_id,
        saga.outcome(job),
        job.error_code,
        saga.requested_at,
        job.finished_at,
        job.duration_ms or 0,
        job.lease_resets,
    )


class _MarkedByAnother(Exception):
    """Another orchestrator has marked and counted some of the jobs."""


def _mark(settled: dict[int, AttemptResult]) -> Collection[int]:
    """Mark jobs settled and count the newly marked ones, in one transaction; returns their ids."""
    if not settled:
        return ()
    try:
        return in_transaction(lambda: _mark_all(settled))
    except _MarkedByAnother:
        return in_transaction(lambda: _mark_open(settled))


def _mark_all(settled: dict[int, AttemptResult]) -> Collection[int]:
    if _to_settled(ids=list(settled)) < len(settled):
        raise _MarkedByAnother  # roll back, then find out which ones
    attempts.add(list(settled.values()))
    return settled.keys()


_to_settled = CompiledUpdate(
    lambda ids: (Job.objects.filter(id__in=ids, settled_at__isnull=True), {"settled_at": UtcNow()})
)


def _mark_open(settled: dict[int, AttemptResult]) -> Collection[int]:
    rows = Job.objects.filter(id__in=settled, settled_at__isnull=True).select_for_update()
    still_open = list(rows.order_by("id").values_list("id", flat=True))
    if still_open:
        Job.objects.filter(id__in=still_open).update(settled_at=UtcNow())
        attempts.add([settled[id] for id in still_open])
    return set(still_open)


_saga_rows = CompiledSelect(lambda ids: Saga.objects.filter(id__in=ids).values_list(*SAGA_COLUMNS))


def _sagas(jobs: Sequence[FinishedJob]) -> dict[int, SagaRow]:
    if not jobs:
        return {}
    return {row[0]: SagaRow(*row) for row in _saga_rows(ids=list({job.saga_id for job in jobs}))}


def _decide(jobs: Sequence[FinishedJob], sagas: dict[int, SagaRow]) -> list[Settlement]:
    """What follows from each result; the same however often it is computed."""
    bounds = Bounds(hub().max_delay, hub().retry_after_cap)
    settlements = []
    for job in jobs:
        saga = sagas[job.saga_id]
        policy = RetryPolicy(saga.max_retry_limit, saga.base_delay, saga.retry_delays)
        result = Result(job.error_code, job.attempt_at, job.finished_at, job.retry_after)
        settlements.append(Settlement(job, saga, decide(saga.id, job.attempt_no - 1, policy, result, bounds)))
    return settlements


def _complete(attempts_of_sagas: Collection[tuple[int, int]]) -> int:
    """Complete these sagas, each with its attempt's number; returns how many have changed.

    All of them, unless another orchestrator was faster.
    """
    by_attempt: dict[int, list[int]] = defaultdict(list)
    for saga_id, attempt_no in attempts_of_sagas:
        by_attempt[attempt_no].append(saga_id)
    changed = 0
    for attempt_no, ids in by_attempt.items():
        values = {"ids": ids, "awaited": attempt_no - 1, "attempt_no": attempt_no}
        changed += one_statement(lambda values=values: _to_completed(**values))  # type: ignore[misc]
    return changed


_to_completed = CompiledUpdate(
    lambda ids, awaited, attempt_no: (
        Saga.objects.filter(id__in=ids, status=IN_PROGRESS, attempt_count=awaited),
        {"status": COMPLETED, "attempt_count": attempt_no, "updated_at": UtcNow()},
    )
)


def _retry(settlements: Sequence[Settlement]) -> None:
    table = Saga._meta.db_table
    update_each(
        Saga,
        [
            {
                "id": item.saga.id,
                "attempt_count": item.saga.attempt_count,
                "status": PENDING_RETRY,
                "next_attempt_at": item.decision.next_attempt_at,
                "final_error_code": item.job.error_code,
            }
            for item in settlements
        ],
        match=["id", "attempt_count"],
        where=f"{table}.status = '{IN_PROGRESS}'",
        values={"attempt_count": f"{table}.attempt_count + 1", "updated_at": clock.now_sql()},
    )


def _dead_letter(settlements: Sequence[Settlement], now: datetime) -> None:
    """The dead letter first, the saga second: a DeadLettered saga always has its dead letter."""
    groups: dict[tuple[int, str], list[SagaRow]] = defaultdict(list)
    for item in settlements:
        groups[item.job.attempt_no, item.job.error_code or ""].append(item.saga)
    create_dead_letters(
        [
            NewDeadLetter(saga.id, saga.event_id, saga.subscription_id, error_code, now)
            for (_, error_code), sagas in groups.items()
            for saga in sagas
        ]
    )
    for (attempt_no, error_code), sagas in groups.items():
        awaiting = Saga.objects.filter(
            id__in=[saga.id for saga in sagas], status=IN_PROGRESS, attempt_count=attempt_no - 1
        )
        values = {"attempt_count": attempt_no, "final_error_code": error_code, "updated_at": now}
        one_statement(lambda rows=awaiting, values=values: rows.update(status=DEAD_LETTERED, **values))  # type: ignore[misc]


MESSAGES = {
    COMPLETED: Log.SAGA_COMPLETED,
    PENDING_RETRY: Log.SAGA_RETRY_SCHEDULED,
    DEAD_LETTERED: Log.SAGA_DEAD_LETTERED,
}


def _log(settlements: Sequence[Settlement]) -> None:
    """Each transition once: by the process that has marked its job, even if another one has changed the saga."""
    for item in settlements:
        job, decision = item.job, item.decision
        if not enabled(MESSAGES[decision.status]):
            continue
        fields = {} if decision.next_attempt_at is None else {"next_attempt_at": decision.next_attempt_at.isoformat()}
        log(
            MESSAGES[decision.status],
            correlation_id=item.saga.correlation_id,
            saga_id=item.saga.id,
            job_id=job.id,
            attempt_no=job.attempt_no,
            delivery_status=decision.status,
            error_code=job.error_code,
            worker_id=job.worker_id,
            lease_expiration=job.lease_until and job.lease_until.isoformat(),
            **fields,
        )
