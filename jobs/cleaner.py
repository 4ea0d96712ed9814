"""Jobs whose worker has gone silent become ready again."""

from __future__ import annotations

from webhookhub.db import clock
from webhookhub.db.statements import update_each
from webhookhub.logs import Fact, log

from .models import Job
from .states import LEASED, PENDING


def clean(batch_size: int) -> int:
    """Reset one batch of expired leases; returns how many were found.

    The token is compared and kept: a lease that was renewed in the meantime is left alone, and the next lease
    replaces the token, so that the worker given up on cannot write its result any more.
    """
    now = clock.now()
    expired = list(
        Job.objects.expired(now).values_list(
            "id", "lease_token", "saga_id", "worker_id", "lease_until", "saga__event__correlation_id"
        )[:batch_size]
    )
    table = Job._meta.db_table
    update_each(
        Job,
        [{"id": row[0], "lease_token": row[1], "status": PENDING, "lease_until": now} for row in expired],
        match=["id", "lease_token"],
        where=f"{table}.status = '{LEASED}'",
        values={"lease_resets": f"{table}.lease_resets + 1"},
    )
    for job_id, _, saga_id, worker_id, lease_until, correlation_id in expired:
        log(
            Fact.JOB_LEASE_RESET,
            correlation_id=correlation_id,
            saga_id=saga_id,
            job_id=job_id,
            delivery_status=PENDING,
            worker_id=worker_id,
            error_code=None,
            lease_expiration=lease_until and lease_until.isoformat(),
        )
    return len(expired)
