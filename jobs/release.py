"""A worker gives back jobs that it has taken and will not send."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.logs import Fact, log

from .lease import LeasedJob
from .models import Job
from .states import LEASED, PENDING


def release(worker_id: str, jobs: Sequence[tuple[LeasedJob, timedelta]]) -> None:
    """Make jobs ready again, each in a while, where the lease is still this worker's. Nothing was sent."""
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
        log(
            Fact.JOB_RELEASED,
            correlation_id=job.correlation_id,
            saga_id=job.saga_id,
            job_id=job.id,
            attempt_no=job.attempt_no,
            delivery_status=PENDING,
            worker_id=worker_id,
            error_code=None,
            lease_expiration=job.lease_until and job.lease_until.isoformat(),
        )
