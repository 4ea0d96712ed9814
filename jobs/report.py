"""Writes the results of a worker's attempts, where the lease is still its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.logs import Log
from webhookhub.runner.notifier import notify

from .lease import LeasedJob
from .models import Job
from .states import COMPLETED, FAILED, LEASED


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one attempt. `error_code` is None when the endpoint responded with 2xx."""

    job: LeasedJob
    error_code: str | None
    response_status: int | None = None
    duration_ms: int = 0
    retry_after: timedelta | None = None
    response_snippet: str = ""

    @property
    def status(self) -> str:
        return COMPLETED if self.error_code is None else FAILED


def report(worker_id: str, reports: Sequence[Report]) -> int:
    """Write results with one statement; returns how many were accepted. Results of lost leases are dropped."""
    if not reports:
        return 0
    # The time is read only for the rare responses that ask for a later attempt.
    now = clock.now() if any(report.retry_after is not None for report in reports) else None
    accepted = update_each(
        Job,
        [
            {
                "id": report.job.id,
                "lease_token": report.job.lease_token,
                "status": report.status,
                "error_code": report.error_code,
                "response_status": report.response_status,
                "duration_ms": report.duration_ms,
                "retry_after": None if now is None or report.retry_after is None else now + report.retry_after,
                "response_snippet": report.response_snippet,
                **({} if now is None else {"finished_at": now}),
            }
            for report in reports
        ],
        match=["id", "lease_token"],
        where=f"{Job._meta.db_table}.status = '{LEASED}'",
        values={"finished_at": clock.now_sql()} if now is None else {},
    )
    notify("orchestrator", "results", [report.job.id for report in reports])
    lost = _lost(reports) if accepted < len(reports) else set()
    for item in reports:
        item.job.log(
            Log.LEASE_LOST if item.job.id in lost else Log.JOB_REPORTED,
            worker_id,
            item.status,
            error_code=item.error_code,
            response_status=item.response_status,
            duration_ms=item.duration_ms,
        )
    return len(reports) - len(lost)


def _lost(reports: Sequence[Report]) -> set[int]:
    """Ids of the jobs whose row has another result or none: their lease was reset, and perhaps taken again."""
    tokens = {item.job.id: item.job.lease_token for item in reports}
    stored = dict(Job.objects.filter(id__in=tokens, status__in=(COMPLETED, FAILED)).values_list("id", "lease_token"))
    return {job_id for job_id, token in tokens.items() if stored.get(job_id) != token}
