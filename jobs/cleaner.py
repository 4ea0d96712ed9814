"""Resets expired leases: their jobs become ready again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Log, log
from webhookhub.stats import counters

from .models import Job
from .states import LEASED, PENDING


def clean(batch_size: int) -> int:
    """Reset one batch of expired leases; returns how many were found.

    The token is compared, so that a lease that was renewed in the meantime is left alone. It is kept until the next
    lease replaces it; then the old worker can no longer write its result.
    """
    now = clock.now()
    expired = list(
        Job.objects.expired(now).values_list(
            "id", "lease_token", "saga_id", "worker_id", "lease_until", "saga__event__correlation_id"
        )[:batch_size]
    )
    if expired:
        in_transaction(lambda: _reset([(job_id, token) for job_id, token, *_ in expired], now))
    for job_id, _, saga_id, worker_id, lease_until, correlation_id in expired:
        log(
            Log.JOB_LEASE_RESET,
            correlation_id=correlation_id,
            saga_id=saga_id,
            job_id=job_id,
            delivery_status=PENDING,
            worker_id=worker_id,
            error_code=None,
            lease_expiration=lease_until and lease_until.isoformat(),
        )
    return len(expired)


def _reset(leases: Sequence[tuple[int, str]], now: datetime) -> None:
    table = Job._meta.db_table
    reset = update_each(
        Job,
        [{"id": id, "lease_token": token, "status": PENDING, "lease_until": now} for id, token in leases],
        match=["id", "lease_token"],
        where=f"{table}.status = '{LEASED}'",
        values={"lease_resets": f"{table}.lease_resets + 1"},
    )
    counters.add({(counters.LEASE_RESETS, ""): reset})
