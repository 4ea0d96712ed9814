"""Leases: a worker takes jobs, by polling or by their ids, and releases jobs that it will not send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Expression, ExpressionWrapper, F, TextField

from subscriptions.signing import Endpoint
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.db.clock import UtcLater, UtcNow
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import in_transaction, one_statement
from webhookhub.ids import new_token
from webhookhub.logs import Log, enabled, log

from .models import Job
from .states import LEASED, PENDING

NO_TIME = "1970-01-01T00:00:00"


class LeasedJob(NamedTuple):
    """What a worker needs to send a job, and the token of its lease."""

    id: int
    saga_id: int
    attempt_no: int
    lease_resets: int
    event_type: str
    payload: str
    correlation_id: str
    subscription_id: int
    active: bool
    verified: bool
    disabled_at: datetime | None
    customer_disabled_at: datetime | None
    # Both as text, with dashes and with T and Z: they are only copied into the request.
    event_uid: str
    event_created_at: str
    endpoint: Endpoint
    lease_token: str
    lease_until: datetime

    def log_leased(self, worker_id: str) -> None:
        """Not logged for a job that is released unsent: a waiting job may be leased and released many times."""
        self.log(Log.JOB_LEASED, worker_id, LEASED)

    def log(self, message: Log, worker_id: str, status: str, *, error_code: str | None = None, **fields: Any) -> None:
        if not enabled(message):
            return
        log(
            message,
            correlation_id=self.correlation_id,
            saga_id=self.saga_id,
            job_id=self.id,
            attempt_no=self.attempt_no,
            delivery_status=status,
            worker_id=worker_id,
            error_code=error_code,
            lease_expiration=self.lease_until.isoformat(),
            **fields,
        )


# The columns before this one are used unchanged.
UID = LeasedJob._fields.index("event_uid")


def lease(worker_id: str, limit: int) -> list[LeasedJob]:
    """Lease up to `limit` ready jobs, skipping those that another worker is leasing."""
    return _leased(lambda token: in_transaction(lambda: _claim(worker_id, token, limit)))


def lease_hinted(worker_id: str, ids: Sequence[int]) -> list[LeasedJob]:
    """Lease those of these jobs that are ready."""
    return _leased(lambda token: ids if one_statement(lambda: _lease(ids, worker_id, token)) else [])


def _leased(claim: Callable[[str], Sequence[int]]) -> list[LeasedJob]:
    """The jobs that got the new token of `claim`."""
    token = new_token()
    claimed = claim(token)
    return _read(claimed, token) if claimed else []


def release(worker_id: str, jobs: Sequence[tuple[LeasedJob, timedelta]]) -> None:
    """Make unsent jobs ready again, each after its delay, where the lease is still this worker's."""
    if not jobs:
        return
    now = clock.now()
    update_each(
        Job,
        [
            {"id": job.id, "lease_token": job.lease_token, "status": PENDING, "lease_until": now + delay}
            for job, delay in jobs
        ],
        match=["id", "lease_token"],
        where=f"{Job._meta.db_table}.status = '{LEASED}'",
    )
    for job, _ in jobs:
        job.log(Log.JOB_RELEASED, worker_id, PENDING)


def _claim(worker_id: str, token: str, limit: int) -> list[int]:
    ids = [id for (id,) in _ready(limit=Limit(limit))]
    if ids:
        _lease(ids, worker_id, token)
    return ids


_ready = CompiledSelect(
    lambda limit: Job.objects.ready(UtcNow()).select_for_update(skip_locked=True).values_list("id")[:limit]
)


def _lease(ids: Sequence[int], worker_id: str, token: str) -> int:
    microseconds = hub().lease // timedelta(microseconds=1)
    return _to_leased(ids=list(ids), microseconds=microseconds, token=token, worker_id=worker_id)


_to_leased = CompiledUpdate(
    lambda ids, microseconds, token, worker_id: (
        # The status, even after a SELECT with a lock: not every engine keeps it.
        Job.objects.filter(id__in=ids, status=PENDING, lease_until__lte=UtcNow()),
        {"status": LEASED, "lease_until": UtcLater(microseconds), "lease_token": token, "worker_id": worker_id},
    )
)


def _as_read(column: str) -> Expression:
    """The driver's value without conversion: parsing a row's uid and time costs more than sending them."""
    return ExpressionWrapper(F(column), output_field=TextField())


_with_event_and_endpoint = CompiledSelect(
    lambda ids, token: (
        Job.objects.filter(id__in=ids, lease_token=token)
        .order_by("id")
        .values_list(
            "id",
            "saga_id",
            "attempt_no",
            "lease_resets",
            "saga__event__event_type",
            "saga__event__payload",
            "saga__event__correlation_id",
            "saga__subscription_id",
            "saga__subscription__active",
            "saga__subscription__verified",
            "saga__subscription__disabled_at",
            "saga__subscription__customer_disabled_at",
            _as_read("saga__event__uid"),
            _as_read("saga__event__created_at"),
            "lease_until",
            *(f"saga__subscription__{column}" for column in Endpoint._fields),
        )
    )
)


def _read(ids: Sequence[int], token: str) -> list[LeasedJob]:
    """The jobs that have this token."""
    return [
        LeasedJob._make(
            (*row[:UID], _dashed(row[UID]), _iso(row[UID + 1]), Endpoint._make(row[UID + 3 :]), token, row[UID + 2])
        )
        for row in _with_event_and_endpoint(ids=list(ids), token=token)
    ]


def _dashed(uid: str) -> str:
    """Some engines store a UUID without dashes."""
    if len(uid) != 32:
        return uid
    return f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}"


def _iso(time: datetime | str | None) -> str:
    """A UTC time; drivers return a datetime, the stored text, or None for a zero date."""
    return str(time or NO_TIME).replace(" ", "T") + "Z"
