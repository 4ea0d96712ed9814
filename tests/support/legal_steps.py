"""Brings stored rows into a state as the database demands it: by legal transitions, one after the other."""

from __future__ import annotations

from datetime import datetime

from deadletters.models import DeadLetter
from jobs.models import Job
from jobs.states import FINISHED
from sagas.models import Saga
from webhookhub.db import clock


def advance(saga: Saga, status: str, attempts: int) -> None:
    """From Pending to `status` after `attempts` results; a DeadLettered saga gets a dead letter if it has none."""
    ended = status in ("Completed", "DeadLettered")
    if status == "InProgress" or ended:
        start(saga, attempts - ended)
    else:
        fail(saga, attempts)
    if ended:
        if status == "DeadLettered" and not DeadLetter.objects.filter(saga=saga).exists():
            dead_letter(saga)
        update(saga, status=status, attempt_count=attempts)


def start(saga: Saga, attempts: int) -> None:
    """InProgress, after this many failed attempts."""
    fail(saga, attempts)
    update(saga, status="InProgress")


def fail(saga: Saga, attempts: int) -> None:
    """Let attempts fail until the saga has this many."""
    while saga.attempt_count < attempts:
        update(saga, status="InProgress")
        update(saga, status="PendingRetry", attempt_count=saga.attempt_count + 1)


def dead_letter(saga: Saga, failed_at: datetime | None = None, code: str | None = None) -> DeadLetter:
    return DeadLetter.objects.create(
        saga=saga,
        event=saga.event,
        subscription=saga.subscription,
        final_error_code=code or saga.final_error_code or "http_500",
        failed_at=failed_at or clock.now(),
        payload_snapshot=saga.event.payload,
    )


def finish(
    job: Job, status: str, finished_at: datetime | None, error_code: str | None, settled_at: datetime | None
) -> None:
    """From Pending to `status`; a finished job gets the result that it needs."""
    if status != "Pending":
        update(job, status="Leased")
    if status in FINISHED:
        code = error_code or (None if status == "Completed" else "http_500")
        update(job, status=status, finished_at=finished_at or clock.now(), error_code=code)
    if settled_at:
        update(job, settled_at=settled_at)


def update(row: Saga | Job, **values: object) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**values)
    for name, value in values.items():
        setattr(row, name, value)
