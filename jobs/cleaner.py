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
    leases = [(job_id, token) for job_id, token, *_ in expired]
    reset = in_transaction(lambda: _reset(leases, now)) if leases else set()
    for job_id, _, saga_id, worker_id, lease_until, correlation_id in expired:
        if job_id not in reset:
            continue
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


def _reset(leases: Sequence[tuple[int, str]], now: datetime) -> set[int]:
    """Returns the ids of the jobs whose lease this transaction has reset."""
    table = Job._meta.db_table
    count = update_each(
        Job,
        [{"id": id, "lease_token": token, "status": PENDING, "lease_until": now} for id, token in leases],
        match=["id", "lease_token"],
        where=f"{table}.status = '{LEASED}'",
        values={"lease_resets": f"{table}.lease_resets + 1"},
    )
    counters.add({(counters.LEASE_RESETS, ""): count})
    ids = {job_id for job_id, _ in leases}
    if count in (0, len(ids)):
        return ids if count else set()
    # Another cleaner was faster, or a late result came. The rows of this transaction are locked and have its time.
    return set(Job.objects.filter(id__in=ids, status=PENDING, lease_until=now).values_list("id", flat=True))
