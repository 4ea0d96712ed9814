"""What a job's own columns say, and whether its lease is looked after."""

from __future__ import annotations

from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.walk import JOBS

CHECKS = (
    RowCheck(
        name="leased-jobs",
        invariant="A Leased job has a token, a worker and an end of its lease.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id
            FROM {walked}
            WHERE {within} AND j.status = 'Leased'
                AND (j.lease_token = '' OR j.worker_id = '' OR j.lease_until IS NULL)
        """,
        says="Leased for saga {saga_id}, without a token, a worker or an end",
    ),
    RowCheck(
        name="overdue-leases",
        invariant="No lease is far past its time.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, j.worker_id, j.lease_until
            FROM {walked}
            WHERE {within} AND j.status = 'Leased' AND j.lease_until < %(before)s
        """,
        says="leased by {worker_id!r} for saga {saga_id} until {lease_until}, and not reset since",
    ),
    RowCheck(
        name="finished-jobs",
        invariant=(
            "A finished job has its time and its worker, and an error code exactly when it Failed; "
            "an active one has no result."
        ),
        table=JOBS,
        sql="""
            SELECT j.id, j.status, j.saga_id
            FROM {walked}
            WHERE {within} AND CASE WHEN j.status IN ('Completed', 'Failed')
                THEN j.finished_at IS NULL OR j.worker_id = '' OR j.lease_token = ''
                    OR (j.error_code IS NULL) <> (j.status = 'Completed')
                ELSE j.finished_at IS NOT NULL OR j.settled_at IS NOT NULL OR j.error_code IS NOT NULL
            END
        """,
        says="{status} for saga {saga_id}, with a time, worker, error code or settlement that does not belong to that",
    ),
)
