"""Creates jobs: one for each attempt of a saga, however often it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from webhookhub.db.bulk import insert_new
from webhookhub.runner.notifier import notify

from .models import Job
from .states import PENDING


def create_jobs(attempts: Sequence[tuple[int, int, datetime]], now: datetime) -> None:
    """Insert a ready job for each (saga id, attempt number, due time) that has none."""
    insert_new(
        Job,
        [
            {
                "saga_id": saga_id,
                "attempt_no": attempt_no,
                "status": PENDING,
                "attempt_at": due_at,
                "lease_until": now,
            }
            for saga_id, attempt_no, due_at in attempts
        ],
        key=("saga_id", "attempt_no"),
    )
    notify("worker")


def find_jobs(attempts: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The job id of each (saga id, attempt number) that has a job."""
    wanted = set(attempts)
    rows = Job.objects.filter(
        saga_id__in={saga_id for saga_id, _ in wanted},
        attempt_no__in={attempt_no for _, attempt_no in wanted},
    ).values_list("saga_id", "attempt_no", "id")
    return {(saga_id, attempt_no): job_id for saga_id, attempt_no, job_id in rows if (saga_id, attempt_no) in wanted}
