"""What a saga says of its attempts, and what its jobs say."""

from __future__ import annotations

from webhookhub.integrity.check import RowCheck
from webhookhub.integrity.walk import JOBS, SAGAS

CHECKS = (
    RowCheck(
        name="attempt-bounds",
        invariant=(
            "attempt_count is 0 while Pending, below the limit while InProgress, from 1 to below the limit while "
            "PendingRetry, from 1 to the limit when Completed, and has reached it when DeadLettered."
        ),
        table=SAGAS,
        sql="""
            SELECT s.id, s.status, s.attempt_count, s.max_retry_limit
            FROM {walked}
            WHERE {within} AND NOT (CASE s.status
                WHEN 'Pending' THEN s.attempt_count = 0
                WHEN 'InProgress' THEN s.attempt_count < s.max_retry_limit
                WHEN 'PendingRetry' THEN s.attempt_count >= 1 AND s.attempt_count < s.max_retry_limit
                WHEN 'Completed' THEN s.attempt_count >= 1 AND s.attempt_count <= s.max_retry_limit
                ELSE s.attempt_count >= 1 AND s.attempt_count >= s.max_retry_limit
            END)
        """,
        says="{status} with attempt_count {attempt_count}, limit {max_retry_limit}",
    ),
    RowCheck(
        name="attempt-count",
        invariant=(
            "attempt_count is the number of accepted results: each of these attempts is finished, "
            "and none beyond them is settled."
        ),
        table=SAGAS,
        sql="""
            SELECT s.id, s.status, s.attempt_count,
                SUM(CASE WHEN j.attempt_no <= s.attempt_count AND j.status IN ('Completed', 'Failed')
                    THEN 1 ELSE 0 END) AS finished,
                SUM(CASE WHEN j.attempt_no > s.attempt_count AND j.settled_at IS NOT NULL
                    THEN 1 ELSE 0 END) AS beyond
            FROM {walked} LEFT JOIN webhook_delivery_jobs j {job_by_saga} ON j.saga_id = s.id
            WHERE {within}
            GROUP BY s.id
            HAVING finished <> s.attempt_count OR beyond > 0
        """,
        says="{status} with attempt_count {attempt_count}; finished up to there: {finished}, settled beyond: {beyond}",
    ),
    RowCheck(
        name="attempt-numbers",
        invariant="The attempts of a saga are numbered from 1 without gaps.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, j.attempt_no
            FROM {walked} LEFT JOIN webhook_delivery_jobs p {job_by_saga}
                ON p.saga_id = j.saga_id AND p.attempt_no + 1 = j.attempt_no
            WHERE {within} AND j.attempt_no <> 1 AND (p.id IS NULL OR j.attempt_no = 0)
        """,
        says="attempt {attempt_no} of saga {saga_id}, and there is none before it",
    ),
    RowCheck(
        name="one-job",
        invariant="An attempt of a saga has one job.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, j.attempt_no, o.id AS other
            FROM {walked} {join} webhook_delivery_jobs o {job_by_saga}
                ON o.saga_id = j.saga_id AND o.attempt_no = j.attempt_no AND o.id < j.id
            WHERE {within}
        """,
        says="attempt {attempt_no} of saga {saga_id}, as job {other}",
    ),
    RowCheck(
        name="one-active-job",
        invariant="A saga has at most one active job.",
        table=JOBS,
        sql="""
            SELECT j.id, j.saga_id, o.id AS other
            FROM {walked} {join} webhook_delivery_jobs o {job_by_saga} ON o.saga_id = j.saga_id AND o.id < j.id
            WHERE {within} AND j.status IN ('Pending', 'Leased') AND o.status IN ('Pending', 'Leased')
        """,
        says="active for saga {saga_id}, as is job {other}",
    ),
    RowCheck(
        name="active-jobs",
        invariant="An active job is the next attempt of a saga that has not ended.",
        table=JOBS,
        sql="""
            SELECT j.id, j.status, j.attempt_no, j.saga_id, s.status AS saga_status, s.attempt_count
            FROM {walked} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = j.saga_id
            WHERE {within} AND j.status IN ('Pending', 'Leased')
                AND (s.status IN ('Completed', 'DeadLettered') OR j.attempt_no <> s.attempt_count + 1)
        """,
        says="{status}, attempt {attempt_no} of saga {saga_id}, which is {saga_status} after {attempt_count}",
    ),
    RowCheck(
        name="in-progress",
        invariant="An InProgress saga has a job for its next attempt, active or not settled yet.",
        table=SAGAS,
        sql="""
            SELECT s.id, s.attempt_count
            FROM {walked} LEFT JOIN webhook_delivery_jobs j {job_by_saga}
                ON j.saga_id = s.id AND j.attempt_no = s.attempt_count + 1 AND j.settled_at IS NULL
            WHERE {within} AND s.status = 'InProgress' AND j.id IS NULL
        """,
        says="InProgress after {attempt_count} attempts, and nothing is under way",
    ),
    RowCheck(
        name="settled",
        invariant=(
            "A result that its saga has applied is marked settled soon; none is left that its saga can never apply."
        ),
        table=JOBS,
        sql="""
            SELECT j.id, j.attempt_no, j.saga_id, s.status AS saga_status, s.attempt_count
            FROM {walked} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = j.saga_id
            WHERE {within} AND j.settled_at IS NULL AND j.status IN ('Completed', 'Failed')
                AND (j.attempt_no <= s.attempt_count AND s.updated_at < %(before)s
                    OR j.attempt_no > s.attempt_count AND s.status IN ('Completed', 'DeadLettered'))
        """,
        says="not settled: attempt {attempt_no} of saga {saga_id}, which is {saga_status} after {attempt_count}",
    ),
    RowCheck(
        name="outcomes",
        invariant="A Completed saga's last attempt succeeded; every other accepted attempt failed.",
        table=JOBS,
        sql="""
            SELECT j.id, j.status, j.attempt_no, j.saga_id, s.status AS saga_status, s.attempt_count
            FROM {walked} {join} webhook_delivery_sagas s {saga_by_id} ON s.id = j.saga_id
            WHERE {within} AND j.attempt_no <= s.attempt_count
                AND (j.status = 'Completed') <> (s.status = 'Completed' AND j.attempt_no = s.attempt_count)
        """,
        says="{status}, attempt {attempt_no} of saga {saga_id}, which is {saga_status} after {attempt_count}",
    ),
)
