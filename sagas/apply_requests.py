"""Applies requests to deliveries: one batch of one request per turn of the orchestrator, safe to repeat.

Each batch ends with a transaction that changes its sagas and the progress of the request. It begins with the request's
row: of two orchestrators with the same batch, the second finds that the row has moved on and changes nothing.

To abandon takes several statements. First the sagas are marked: from then on no job is created for them, because the
insert of a job locks the sagas that it reads. So a marked saga that waits, without a job for its next attempt, has no
other future; it gets its dead letter and is set DeadLettered. One that is in progress is left for a later pass: it
completes, or it waits again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef

from deadletters.create import NewDeadLetter, create_dead_letters
from jobs.create import find_jobs
from jobs.models import Job
from webhookhub.db import clock
from webhookhub.db.exists import Condition
from webhookhub.db.retry import in_transaction, one_statement
from webhookhub.egress.error_codes import ABANDONED
from webhookhub.logs import Log, enabled, log
from webhookhub.stats import counters

from .create import correlation_ids
from .models import ABANDON, PARKED, SEND_AGAIN, SEND_NOW, DeliveryRequest, Saga
from .open_sagas import OpenSagas
from .redeliver import send_again
from .requests import InvalidConditions, RequestFilter
from .transitions import DEAD_LETTERED, OPEN, WAITING

# Until the next pass over deliveries that were in progress.
PASS_INTERVAL = timedelta(seconds=1)
# Deliveries that one turn changes at most: each takes about a millisecond, and dispatch and settlement wait meanwhile.
MAX_CHANGED = 100
# The largest number of the column.
MAX_COUNT = 2**31 - 1
DUE = Condition(DeliveryRequest, "due_at <= {now}")


@dataclass(frozen=True)
class Batch:
    """The next open sagas that a request is for; `upto` is the id up to which it has been read."""

    sagas: list[Saga]
    upto: int
    at_end: bool


def apply_requests(batch_size: int) -> int:
    """Apply one batch of the request that has waited longest; returns how many requests it has worked on."""
    now = clock.now()
    request = DeliveryRequest.objects.filter(due_at__lte=now).order_by("due_at", "id").first()
    if request is None:
        return 0
    try:
        APPLY[request.kind](request, batch_size)
    except InvalidConditions as error:
        _set_aside(request, str(error))
    return 1


def _set_aside(request: DeliveryRequest, error: str) -> None:
    """A request that another program has stored with conditions that nothing can apply: it changes nothing."""
    if _change(request, Batch([], request.max_saga_id, at_end=True), lambda: 0):
        log(Log.REQUEST_INVALID, request=str(request.uid), requested_by=request.requested_by, error=error)


def _batch(request: DeliveryRequest, batch_size: int) -> Batch:
    if request.saga_id is not None:
        sagas = list(Saga.objects.filter(id=request.saga_id, status__in=OPEN))
        return Batch(sagas, request.max_saga_id, at_end=True)
    open_sagas = OpenSagas(request.scanned_to, request.max_saga_id)
    rows = open_sagas.next(batch_size)
    own = [saga for saga in rows if saga.abandoned_by_id == request.pk]
    others = [saga for saga in rows if saga.abandoned_by_id is None]
    matching = RequestFilter.from_json(request.conditions).matching(others)
    sagas = sorted(own + matching, key=lambda saga: saga.pk)
    if len(sagas) > MAX_CHANGED:
        return Batch(sagas[:MAX_CHANGED], sagas[MAX_CHANGED - 1].pk, at_end=False)
    return Batch(sagas, open_sagas.position, open_sagas.at_end)


def _send_now(request: DeliveryRequest, batch_size: int) -> None:
    batch = _batch(request, batch_size)
    ids = [saga.pk for saga in batch.sagas if saga.status in WAITING]
    _change(request, batch, lambda: _make_due(ids, clock.now()) if ids else 0)


def _make_due(ids: Collection[int], now: datetime) -> int:
    """Compare-and-set: only sagas that still wait for their time, and for which now is later than their last attempt.

    A parked saga waits for its endpoint, which decides when it may go.
    """
    later = Job.objects.filter(saga_id=OuterRef("id"), attempt_at__gte=now)
    waiting = Saga.objects.filter(id__in=ids, status__in=WAITING, next_attempt_at__gt=now, abandoned_by__isnull=True)
    waiting = waiting.filter(next_attempt_at__lt=PARKED)
    return waiting.filter(~Exists(later)).update(next_attempt_at=now, updated_at=now)


def _abandon(request: DeliveryRequest, batch_size: int) -> None:
    batch = _batch(request, batch_size)
    ids = [saga.pk for saga in batch.sagas]
    if unmarked := [saga.pk for saga in batch.sagas if saga.abandoned_by_id is None]:
        _mark(request, unmarked)
    # Read again after the mark: some have changed since, and only now no job can follow.
    marked = list(Saga.objects.filter(id__in=ids, abandoned_by=request.pk, status__in=OPEN).order_by("id"))
    started = _with_job(marked)
    doomed = [saga for saga in marked if saga.status in WAITING and saga.pk not in started]
    left = [saga.pk for saga in marked if saga not in doomed]
    now = clock.now()
    create_dead_letters(
        [NewDeadLetter(saga.pk, saga.event_id, saga.subscription_id, ABANDONED, now) for saga in doomed]
    )

    changed: list[int] = []

    def dead_letter() -> int:
        changed[:] = _dead_letter([saga.pk for saga in doomed], now) if doomed else []
        counters.add({(counters.ABANDONED, ""): len(changed)})
        return len(changed)

    if _change(request, batch, dead_letter, left_from=min(left, default=None)):
        _log_abandoned(request, [saga for saga in doomed if saga.pk in changed])


def _mark(request: DeliveryRequest, ids: Sequence[int]) -> None:
    unmarked = Saga.objects.filter(id__in=ids, status__in=OPEN, abandoned_by__isnull=True)
    one_statement(lambda: unmarked.update(abandoned_by=request.pk))


def _with_job(sagas: Sequence[Saga]) -> set[int]:
    """The sagas that wait although their next attempt has a job: a dispatch has created it and not set them yet."""
    waiting = [saga for saga in sagas if saga.status in WAITING]
    started: set[int] = set()
    for attempt_count in {saga.attempt_count for saga in waiting}:
        ids = [saga.pk for saga in waiting if saga.attempt_count == attempt_count]
        started |= find_jobs(ids, attempt_count + 1).keys()
    return started


def _dead_letter(ids: Sequence[int], now: datetime) -> list[int]:
    """Set the sagas that still wait DeadLettered; returns which."""
    rows = Saga.objects.filter(id__in=ids, status__in=WAITING).select_for_update().order_by("id")
    waiting = list(rows.values_list("id", flat=True))
    if waiting:
        Saga.objects.filter(id__in=waiting).update(status=DEAD_LETTERED, final_error_code=ABANDONED, updated_at=now)
    return waiting


def _send_again(request: DeliveryRequest, batch_size: int) -> None:
    assert request.saga_id is not None
    saga = Saga.objects.get(pk=request.saga_id)
    author = {"by": request.requested_by, "reason": request.reason, "token": request.request_token}
    _change(request, Batch([saga], saga.pk, at_end=True), lambda: int(send_again(saga, **author)))


APPLY: Mapping[str, Callable[[DeliveryRequest, int], None]] = {
    SEND_NOW: _send_now,
    ABANDON: _abandon,
    SEND_AGAIN: _send_again,
}


def _change(request: DeliveryRequest, batch: Batch, change: Callable[[], int], *, left_from: int | None = None) -> bool:
    """Change the sagas of a batch and the progress of the request in one transaction.

    False, and nothing is changed, if another orchestrator has applied this batch.
    """

    def write() -> dict[str, Any] | None:
        rows = DeliveryRequest.objects.filter(pk=request.pk, batches=request.batches)
        if not list(rows.select_for_update().values_list("id")):
            return None
        progress = _progress(request, batch, change(), left_from)
        rows.update(**progress)
        return progress

    progress = in_transaction(write)
    if progress is not None and progress["applied_at"] is not None:
        log(
            Log.REQUEST_APPLIED,
            request=str(request.uid),
            kind=request.kind,
            saga_id=request.saga_id,
            requested_by=request.requested_by,
            changed=progress["changed"],
            batches=progress["batches"],
        )
    return progress is not None


def _progress(request: DeliveryRequest, batch: Batch, changed: int, left_from: int | None) -> dict[str, Any]:
    """The next batch, another pass over deliveries that were in progress, or the end."""
    now = clock.now()
    left_from = left_from if request.left_from is None else request.left_from
    progress: dict[str, Any] = {"batches": request.batches + 1, "changed": min(request.changed + changed, MAX_COUNT)}
    if not batch.at_end:
        return progress | {"scanned_to": batch.upto, "left_from": left_from, "due_at": now, "applied_at": None}
    if left_from is not None:
        due_at = now + PASS_INTERVAL
        return progress | {"scanned_to": left_from - 1, "left_from": None, "due_at": due_at, "applied_at": None}
    return progress | {"scanned_to": batch.upto, "left_from": None, "due_at": None, "applied_at": now}


def _log_abandoned(request: DeliveryRequest, sagas: Sequence[Saga]) -> None:
    if not sagas or not enabled(Log.SAGA_DEAD_LETTERED):
        return
    known = correlation_ids.of([saga.pk for saga in sagas])
    for saga in sagas:
        log(
            Log.SAGA_DEAD_LETTERED,
            correlation_id=known[saga.pk],
            saga_id=saga.pk,
            delivery_status=DEAD_LETTERED,
            error_code=ABANDONED,
            request=str(request.uid),
            requested_by=request.requested_by,
        )
