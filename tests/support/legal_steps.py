"""Brings stored rows into a state as the database demands it: by legal transitions, one after the other."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from deadletters.models import DeadLetter
from jobs.models import Job
from jobs.states import FINISHED
from sagas.models import ABANDON, DeliveryRequest, Saga
from webhookhub.db import clock
from webhookhub.ids import new_token


def advance(saga: Saga, status: str, attempts: int) -> None:
    """From Pending to `status` after `attempts` results; a DeadLettered saga gets a dead letter if it has none."""
    ended = status in ("Completed", "DeadLettered")
    if status == "InProgress" or ended:
        start(saga, attempts - ended)
    else:
        fail(saga, attempts)
    if status == "Completed":
        settle(saga, "Completed", "Completed")
    if status == "DeadLettered":
        finish(current_job(saga), "Failed", None, saga.final_error_code, None)
        if not DeadLetter.objects.filter(saga=saga).exists():
            dead_letter(saga)
        settle(saga, "Failed", "DeadLettered")


def start(saga: Saga, attempts: int) -> None:
    """InProgress, after this many failed attempts."""
    fail(saga, attempts)
    begin(saga)


def fail(saga: Saga, attempts: int) -> None:
    """Let attempts fail until the saga has this many."""
    while saga.attempt_count < attempts:
        begin(saga)
        settle(saga, "Failed", "PendingRetry")


def begin(saga: Saga) -> None:
    """The job of the next attempt, and InProgress."""
    attempt_no = saga.attempt_count + 1
    # Attempts are due one after the other, and before the next one.
    at = saga.next_attempt_at - timedelta(hours=1) + timedelta(seconds=attempt_no)
    Job.objects.create(saga=saga, attempt_no=attempt_no, attempt_at=at, lease_until=clock.now())
    update(saga, status="InProgress")


def settle(saga: Saga, result: str, status: str) -> None:
    """The current job ends with this result, and the saga applies it."""
    job = current_job(saga)
    finish(job, result, None, None, None)
    update(saga, status=status, attempt_count=saga.attempt_count + 1)
    if job.settled_at is None:
        update(job, settled_at=clock.now())


def current_job(saga: Saga) -> Job:
    job: Job = Job.objects.get(saga=saga, attempt_no=saga.attempt_count + 1)
    return job


def mark(saga: Saga, saga_id: int | None = None, **values: Any) -> DeliveryRequest:
    """A request abandons the saga; `saga_id` makes it a request for one delivery."""
    values = {"kind": ABANDON, "max_saga_id": saga.pk, "conditions": "{}", "request_token": new_token(), **values}
    request = DeliveryRequest.objects.create(saga_id=saga_id, requested_by="ada", reason="obsolete", **values)
    with transaction.atomic():
        update(saga, abandoned_by_id=request.pk)
    return request


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
    """From its status to `status`; a finished job gets the result that it needs."""
    if status != "Pending" and job.status == "Pending":
        update(job, status="Leased")
    if status in FINISHED and job.status == "Leased":
        code = error_code or (None if status == "Completed" else "http_500")
        update(job, status=status, finished_at=finished_at or clock.now(), error_code=code)
    if settled_at:
        update(job, settled_at=settled_at)


def reset(job: Job, times: int) -> None:
    """Let the lease of a Pending job expire and be reset this often."""
    for _ in range(times):
        update(job, status="Leased")
        update(job, status="Pending", lease_resets=job.lease_resets + 1)


def update(row: Saga | Job, **values: object) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**values)
    for name, value in values.items():
        setattr(row, name, value)
