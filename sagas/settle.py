"""Results of finished jobs are applied to their sagas, each exactly once.

A saga accepts only the result of the attempt it waits for, and a job is marked settled only after its saga has
applied it. A crash in between leaves the job unsettled; doing it again changes nothing twice. The transaction that
marks jobs counts them, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from deadletters.create import NewDeadLetter, create_dead_letters
from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import in_transaction, one_statement
from webhookhub.logs import Fact, log
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult

from .models import Saga
from .policy import Bounds, Complete, GiveUp, Result, Retry, RetryPolicy, decide
from .transitions import COMPLETED, DEAD_LETTERED, IN_PROGRESS, PENDING_RETRY


@dataclass(frozen=True, slots=True)
class FinishedJob:
    id: int
    saga_id: int
    attempt_no: int
    error_code: str | None
    finished_at: datetime
    retry_after: datetime | None
    worker_id: str
    lease_until: datetime | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class SagaView:
    id: int
    status: str
    attempt_count: int
    max_retry_limit: int
    base_delay: timedelta
    event_id: int
    subscription_id: int
    correlation_id: str
    event_created_at: datetime | None
    generation: int
    created_at: datetime

    def awaits(self, job: FinishedJob) -> bool:
        return self.status == IN_PROGRESS and self.attempt_count == job.attempt_no - 1

    def has_applied(self, job: FinishedJob) -> bool:
        return self.attempt_count >= job.attempt_no

    def completed_by(self, job: FinishedJob) -> SagaView:
        return replace(self, status=COMPLETED, attempt_count=job.attempt_no)

    def outcome(self, job: FinishedJob) -> str:
        """What the result that it has applied meant for it."""
        if job.error_code is None:
            return attempts.COMPLETED
        ended = self.status == DEAD_LETTERED and self.attempt_count == job.attempt_no
        return attempts.DEAD_LETTERED if ended else attempts.RETRIED

    @property
    def asked_at(self) -> datetime:
        # An event that was inserted by SQL may have no time that can be read.
        first = self.event_created_at
        return self.created_at if self.generation or first is None else first


@dataclass(frozen=True, slots=True)
class Verdict:
    job: FinishedJob
    saga: SagaView
    decision: Complete | Retry | GiveUp


class Settler:
    """Remembers how far it has read, so that results that cannot be applied yet do not hide those behind them."""

    def __init__(self) -> None:
        self._after = dict.fromkeys(FINISHED, 0)

    def settle(self, batch_size: int, statuses: Collection[str] = FINISHED) -> int:
        """Settle one batch of each of these finished statuses; returns how many results were settled or are still to
        be read."""
        for status in self._after.keys() - statuses:
            self._after[status] = 0
        return sum(self._settle(status, batch_size) for status in statuses)

    def _settle(self, status: str, batch_size: int) -> int:
        jobs = _unsettled(status, self._after[status], batch_size)
        more = len(jobs) == batch_size
        settled = _settle(jobs)
        self._after[status] = jobs[-1].id if more else 0
        return settled or int(more)


_unsettled_rows = CompiledSelect(
    lambda status, after_id, limit: Job.objects.unsettled(status, after_id).values_list(
        *(field.name for field in fields(FinishedJob))
    )[:limit]
)


def _unsettled(status: str, after_id: int, limit: int) -> list[FinishedJob]:
    return [FinishedJob(*row) for row in _unsettled_rows(status=status, after_id=after_id, limit=Limit(limit))]


def _settle(jobs: Sequence[FinishedJob]) -> int:
    if not jobs:
        return 0
    now = clock.now()
    sagas = _sagas(jobs)
    jobs = [job for job in jobs if job.saga_id in sagas]
    verdicts = _judge([job for job in jobs if sagas[job.saga_id].awaits(job)], sagas)
    completed = [verdict for verdict in verdicts if isinstance(verdict.decision, Complete)]
    changed = _complete(completed, now)
    _retry([verdict for verdict in verdicts if isinstance(verdict.decision, Retry)], now)
    _bury([verdict for verdict in verdicts if isinstance(verdict.decision, GiveUp)], now)
    if changed == len(verdicts):
        applied = sagas | {verdict.saga.id: verdict.saga.completed_by(verdict.job) for verdict in completed}
    else:
        # Read again rather than trusted: another orchestrator may have been faster, or slower.
        applied = _sagas(jobs)
    settled = {job.id: _counted(job, applied[job.saga_id]) for job in jobs if applied[job.saga_id].has_applied(job)}
    _mark(settled, now)
    _log(verdicts, applied)
    return len(settled)


def _counted(job: FinishedJob, saga: SagaView) -> AttemptResult:
    return AttemptResult(
        saga.subscription_id,
        saga.outcome(job),
        job.error_code,
        saga.asked_at,
        job.finished_at,
        job.duration_ms or 0,
    )


class _MarkedByAnother(Exception):
    """Some of the jobs were marked, and counted, meanwhile."""


def _mark(settled: dict[int, AttemptResult], now: datetime) -> None:
    """Mark jobs settled and count those that were not, in one transaction: whoever marks a job counts it."""
    if not settled:
        return
    try:
        in_transaction(lambda: _mark_all(settled, now))
    except _MarkedByAnother:
        in_transaction(lambda: _mark_open(settled, now))


def _mark_all(settled: dict[int, AttemptResult], now: datetime) -> None:
    if _to_settled(ids=list(settled), now=now) < len(settled):
        raise _MarkedByAnother  # which undoes it: only now is it worth asking which ones
    attempts.add(list(settled.values()))


_to_settled = CompiledUpdate(
    lambda ids, now: (Job.objects.filter(id__in=ids, settled_at__isnull=True), {"settled_at": now})
)


def _mark_open(settled: dict[int, AttemptResult], now: datetime) -> None:
    rows = Job.objects.filter(id__in=settled, settled_at__isnull=True).select_for_update()
    still_open = list(rows.order_by("id").values_list("id", flat=True))
    if still_open:
        Job.objects.filter(id__in=still_open).update(settled_at=now)
        attempts.add([settled[id] for id in still_open])


_saga_rows = CompiledSelect(
    lambda ids: Saga.objects.filter(id__in=ids).values_list(
        "id",
        "status",
        "attempt_count",
        "max_retry_limit",
        "base_delay",
        "event_id",
        "subscription_id",
        "event__correlation_id",
        "event__created_at",
        "generation",
        "created_at",
    )
)


def _sagas(jobs: Sequence[FinishedJob]) -> dict[int, SagaView]:
    if not jobs:
        return {}
    return {row[0]: SagaView(*row) for row in _saga_rows(ids=list({job.saga_id for job in jobs}))}


def _judge(jobs: Sequence[FinishedJob], sagas: dict[int, SagaView]) -> list[Verdict]:
    bounds = Bounds(hub().max_delay, hub().retry_after_cap)
    verdicts = []
    for job in jobs:
        saga = sagas[job.saga_id]
        policy = RetryPolicy(saga.max_retry_limit, saga.base_delay)
        result = Result(job.error_code, job.finished_at, job.retry_after)
        verdicts.append(Verdict(job, saga, decide(saga.attempt_count, policy, result, bounds)))
    return verdicts


def _complete(verdicts: Sequence[Verdict], now: datetime) -> int:
    """Returns how many sagas that changed: as many as it was asked of, if nobody else was at it."""
    by_attempt: dict[int, list[int]] = defaultdict(list)
    for verdict in verdicts:
        by_attempt[verdict.job.attempt_no].append(verdict.saga.id)
    changed = 0
    for attempt_no, ids in by_attempt.items():
        given = {"ids": ids, "awaited": attempt_no - 1, "attempt_no": attempt_no, "now": now}
        changed += one_statement(lambda given=given: _to_completed(**given))  # type: ignore[misc]
    return changed


_to_completed = CompiledUpdate(
    lambda ids, awaited, attempt_no, now: (
        Saga.objects.filter(id__in=ids, status=IN_PROGRESS, attempt_count=awaited),
        {"status": COMPLETED, "attempt_count": attempt_no, "updated_at": now},
    )
)


def _retry(verdicts: Sequence[Verdict], now: datetime) -> None:
    table = Saga._meta.db_table
    update_each(
        Saga,
        [
            {
                "id": verdict.saga.id,
                "attempt_count": verdict.saga.attempt_count,
                "status": PENDING_RETRY,
                "next_attempt_at": verdict.decision.at,
                "final_error_code": verdict.decision.error_code,
                "updated_at": now,
            }
            for verdict in verdicts
            if isinstance(verdict.decision, Retry)
        ],
        match=["id", "attempt_count"],
        where=f"{table}.status = '{IN_PROGRESS}'",
        values={"attempt_count": f"{table}.attempt_count + 1"},
    )


def _bury(verdicts: Sequence[Verdict], now: datetime) -> None:
    """The dead letter first, the saga second: a DeadLettered saga always has its dead letter."""
    deaths: dict[tuple[int, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if isinstance(verdict.decision, GiveUp):
            deaths[verdict.job.attempt_no, verdict.decision.error_code].append(verdict)
    create_dead_letters(
        [
            NewDeadLetter(verdict.saga.id, verdict.saga.event_id, verdict.saga.subscription_id, error_code, now)
            for (_, error_code), group in deaths.items()
            for verdict in group
        ]
    )
    for (attempt_no, error_code), group in deaths.items():
        awaiting = Saga.objects.filter(
            id__in=[verdict.saga.id for verdict in group], status=IN_PROGRESS, attempt_count=attempt_no - 1
        )
        one_statement(
            lambda awaiting=awaiting, attempt_no=attempt_no, error_code=error_code: awaiting.update(  # type: ignore[misc]
                status=DEAD_LETTERED, attempt_count=attempt_no, final_error_code=error_code, updated_at=now
            )
        )


FACTS = {Complete: Fact.SAGA_COMPLETED, Retry: Fact.SAGA_RETRIES, GiveUp: Fact.SAGA_DEAD_LETTERED}


def _log(verdicts: Sequence[Verdict], applied: dict[int, SagaView]) -> None:
    for verdict in verdicts:
        if not applied[verdict.saga.id].has_applied(verdict.job):
            continue
        fields = {"next_attempt_at": verdict.decision.at.isoformat()} if isinstance(verdict.decision, Retry) else {}
        log(
            FACTS[type(verdict.decision)],
            correlation_id=verdict.saga.correlation_id,
            saga_id=verdict.saga.id,
            job_id=verdict.job.id,
            attempt_no=verdict.job.attempt_no,
            delivery_status=applied[verdict.saga.id].status,
            error_code=verdict.job.error_code,
            worker_id=verdict.job.worker_id,
            lease_expiration=verdict.job.lease_until and verdict.job.lease_until.isoformat(),
            **fields,
        )
