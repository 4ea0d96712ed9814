"""A worker takes jobs: claimed in one short transaction, worked on outside it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db.models import Expression, ExpressionWrapper, F, TextField

from subscriptions.signed_request import Endpoint
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_token
from webhookhub.logs import Fact, log

from .models import Job
from .states import LEASED

NO_TIME = "1970-01-01T00:00:00"


class LeasedJob(NamedTuple):
    """What a worker needs to know of a job, and the token that shows it is its own."""

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
    # Both as text, with dashes and with a T and a Z: a delivery only ever writes them down.
    event_uid: str
    event_created_at: str
    endpoint: Endpoint
    lease_token: str
    lease_until: datetime


# The columns before it are taken as they are read.
UID = LeasedJob._fields.index("event_uid")


def lease(worker_id: str, limit: int) -> list[LeasedJob]:
    """Take up to `limit` ready jobs that no other worker is taking."""
    token = new_token()
    claimed, lease_until = in_transaction(lambda: _claim(worker_id, token, limit))
    if not claimed:
        return []
    leased = _read(claimed, token, lease_until)
    for job in leased:
        log(
            Fact.JOB_LEASED,
            correlation_id=job.correlation_id,
            saga_id=job.saga_id,
            job_id=job.id,
            attempt_no=job.attempt_no,
            delivery_status=LEASED,
            worker_id=worker_id,
            error_code=None,
            lease_expiration=lease_until.isoformat(),
        )
    return leased


def _claim(worker_id: str, token: str, limit: int) -> tuple[list[int], datetime]:
    now = clock.now()
    ids = [id for (id,) in _ready(now=now, limit=Limit(limit))]
    lease_until = now + hub().lease
    if ids:
        _to_leased(ids=ids, lease_until=lease_until, token=token, worker_id=worker_id)
    return ids, lease_until


_ready = CompiledSelect(
    lambda now, limit: Job.objects.ready(now).select_for_update(skip_locked=True).values_list("id")[:limit]
)
_to_leased = CompiledUpdate(
    lambda ids, lease_until, token, worker_id: (
        Job.objects.filter(id__in=ids),
        {"status": LEASED, "lease_until": lease_until, "lease_token": token, "worker_id": worker_id},
    )
)


def _as_read(column: str) -> Expression:
    """The value as the driver gives it: making objects of a row's id and time takes longer than sending them."""
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
            _as_read("saga__event__uid"),
            _as_read("saga__event__created_at"),
            *(f"saga__subscription__{column}" for column in Endpoint._fields),
        )
    )
)


def _read(ids: list[int], token: str, lease_until: datetime) -> list[LeasedJob]:
    return [
        LeasedJob._make(
            (*row[:UID], _dashed(row[UID]), _iso(row[UID + 1]), Endpoint._make(row[UID + 2 :]), token, lease_until)
        )
        for row in _with_event_and_endpoint(ids=ids, token=token)
    ]


def _dashed(uid: str) -> str:
    """Some engines keep it without dashes."""
    if len(uid) != 32:
        return uid
    return f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}"


def _iso(moment: datetime | str | None) -> str:
    """Of a time in UTC: some drivers give an object, others the text that is stored; and nothing for a zero date, as
    SQL can insert it."""
    return str(moment or NO_TIME).replace(" ", "T") + "Z"
