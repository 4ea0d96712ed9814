"""Sagas and their jobs agree, and each job's columns agree with its status."""

from __future__ import annotations

from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.tables import JOBS, SAGAS

CHECKS = (
    RowCheck(
        name="attempt-bounds",
        invariant=(
            "attempt_count is 0 while Pending, below the limit while InProgress, from 1 to below the limit while "
            "PendingRetry, from 1 to the limit when Completed, and has reached it when DeadLettered, unless abandoned."
        ),
        table=SAGAS,
        sql="""
            SELECT s.id, s.status, s.attempt_count, s.max_retry_limit
            FROM {table}
            WHERE {in_batch} AND NOT (CASE s.status
                WHEN 'Pending' THEN s.attempt_count = 0
                WHEN 'InProgress' THEN s.attempt_count < s.max_retry_limit
                WHEN 'PendingRetry' THEN s.attempt_count >= 1 AND s.attempt_count < s.max_retry_limit
                WHEN 'Completed' THEN s.attempt_count >= 1 AND s.attempt_count <= s.max_retry_limit
                ELSE s.attempt_count >= 1 AND s.attempt_count >= s.max_retry_limit
                    OR s.final_error_code = 'abandoned' AND s.attempt_count < s.max_retry_limit
            END)
        """,
        message="{status} with attempt_count {attempt_count}, limit {max_retry_limit}",
    ),
    RowCheck(
        name="attempt-count",
        invariant=(
            "attempt_count is the number of applied results: these attempts are finished, and no later one is settled."
        ),
        table=SAGAS,
        sql="""
            SELECT s.id, s.status, s.attempt_count,
                SUM(CASE WHEN j.attempt_no <= s.attempt_count AND j.status IN ('Completed', 'Failed')
                    THEN 1 ELSE 0 END) AS finished,
                SUM(CASE WHEN j.attempt_no > s.attempt_count AND j.settled_at IS NOT NULL
                    THEN 1 ELSE 0 END) AS beyond
            FROM {table} LEFT JOIN webhook_delivery_jobs j {job_by_saga} ON j.saga_id = s.id
            WHERE {in_batch}
            GROUP BY s.id
            HAVING finished <> s.attempt_count OR beyond > 0
        """,
        message="{status} with attempt_count {attempt_count}; finished: {finished}, settled beyond: {beyond}",
    ),
    RowCheck(
        name="attempt-numbers",
        invariant="The attempts of a saga are numbered from 1 without gaps.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, j.attempt_no
            FROM {table} LEFT JOIN webhook_delivery_jobs p {job_by_saga}
                ON p.saga_id = j.saga_id AND p.attempt_no + 1 = j.attempt_no
            WHERE {in_batch} AND j.attempt_no <> 1 AND (p.id IS NULL OR j.attempt_no = 0)
        """,
        message="attempt {attempt_no} of saga {saga_id}, without the attempt before it",
    ),
    RowCheck(
        name="one-job",
        invariant="There is one job per saga and attempt number.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, j.attempt_no, o.id AS other
            FROM {table} {join} webhook_delivery_jobs o {job_by_saga}
                ON o.saga_id = j.saga_id AND o.attempt_no = j.attempt_no AND o.id < j.id
            WHERE {in_batch}
        """,
        message="attempt {attempt_no} of saga {saga_id}, like job {other}",
    ),
    RowCheck(
        name="one-active-job",
        invariant="A saga has at most one active job.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, o.id AS other
            FROM {table} {join} webhook_delivery_jobs o {job_by_saga} ON o.saga_id = j.saga_id AND o.id < j.id
            WHERE {in_batch} AND j.status IN ('Pending', 'Leased') AND o.status IN ('Pending', 'Leased')
        """,
        message="active for saga {saga_id}, like job {other}",
    ),
    RowCheck(
        name="active-jobs",
        invariant="An active job is the next attempt of a saga that has not ended.",
        table=JOBS,
        sql="""
            SELECT j.id, j.status, j.attempt_no, j.saga_id, s.status AS saga_status, s.attempt_count
            FROM {table} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = j.saga_id
            WHERE {in_batch} AND j.status IN ('Pending', 'Leased')
                AND (s.status IN ('Completed', 'DeadLettered') OR j.attempt_no <> s.attempt_count + 1)
        """,
        message="{status}, attempt {attempt_no} of saga {saga_id}, which is {saga_status} after {attempt_count}",
    ),
    RowCheck(
        name="in-progress",
        invariant="An InProgress saga has a job for its next attempt, active or not settled yet.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.attempt_count
            FROM {table} LEFT JOIN webhook_delivery_jobs j {job_by_saga}
                ON j.saga_id = s.id AND j.attempt_no = s.attempt_count + 1 AND j.settled_at IS NULL
            WHERE {in_batch} AND s.status = 'InProgress' AND j.id IS NULL
        """,
        message="InProgress after {attempt_count} attempts, without an open job",
    ),
    RowCheck(
        name="settled",
        invariant=(
            "A job is marked settled soon after its saga has applied the result; "
            "there is no result that its saga can never apply."
        ),
        table=JOBS,
        sql="""
            SELECT j.id, j.attempt_no, j.saga_id, s.status AS saga_status, s.attempt_count
            FROM {table} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = j.saga_id
            WHERE {in_batch} AND j.settled_at IS NULL AND j.status IN ('Completed', 'Failed')
                AND (j.attempt_no <= s.attempt_count AND s.updated_at < %(before)s
                    OR j.attempt_no > s.attempt_count AND s.status IN ('Completed', 'DeadLettered'))
        """,
        message="not settled: attempt {attempt_no} of saga {saga_id}, which is {saga_status} after {attempt_count}",
    ),
    RowCheck(
        name="outcomes",
        invariant="A Completed saga's last attempt succeeded; every other applied attempt failed.",
        table=JOBS,
        sql="""
            SELECT j.id, j.status, j.attempt_no, j.saga_id, s.status AS saga_status, s.attempt_count
            FROM {table} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = j.saga_id
            WHERE {in_batch} AND j.attempt_no <= s.attempt_count
                AND (j.status = 'Completed') <> (s.status = 'Completed' AND j.attempt_no = s.attempt_count)
        """,
        message="{status}, attempt {attempt_no} of saga {saga_id}, which is {saga_status} after {attempt_count}",
    ),
    RowCheck(
        name="leased-jobs",
        invariant="A Leased job has a token, a worker and an expiry.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id
            FROM {table}
            WHERE {in_batch} AND j.status = 'Leased'
                AND (j.lease_token = '' OR j.worker_id = '' OR j.lease_until IS NULL)
        """,
        message="Leased for saga {saga_id}, without a token, a worker or an expiry",
    ),
    RowCheck(
        name="pending-jobs",
        invariant="A Pending job has a time from which a worker may take it.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id
            FROM {table}
            WHERE {in_batch} AND j.status = 'Pending' AND j.lease_until IS NULL
        """,
        message="Pending for saga {saga_id}, without a time: no worker takes it",
    ),
    RowCheck(
        name="overdue-leases",
        invariant="Expired leases are reset soon.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, j.worker_id, j.lease_until
            FROM {table}
            WHERE {in_batch} AND j.status = 'Leased' AND j.lease_until < %(before)s
        """,
        message="leased by {worker_id!r} for saga {saga_id} until {lease_until}, and not reset",
    ),
    RowCheck(
        name="finished-jobs",
        invariant=(
            "A finished job has a time and a worker, and an error code exactly if it Failed; "
            "an active job has no result."
        ),
        table=JOBS,
        sql="""
            SELECT j.id, j.status, j.saga_id
            FROM {table}
            WHERE {in_batch} AND CASE WHEN j.status IN ('Completed', 'Failed')
                THEN j.finished_at IS NULL OR j.worker_id = '' OR j.lease_token = ''
                    OR (j.error_code IS NULL) <> (j.status = 'Completed')
                ELSE j.finished_at IS NOT NULL OR j.settled_at IS NOT NULL OR j.error_code IS NOT NULL
            END
        """,
        message="{status} for saga {saga_id}, with a wrong time, worker, error code or settlement",
    ),
)
