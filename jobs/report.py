"""A worker says how its attempts ended, and is believed only where the lease is still its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.logs import Fact, log
from webhookhub.runner.notifier import notify

from .lease import LeasedJob
from .models import Job
from .states import COMPLETED, FAILED, LEASED


@dataclass(frozen=True, slots=True)
class Report:
    """How one attempt ended. `error_code` is None when the receiver answered 2xx."""

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
    """Write results with one statement; returns how many were accepted. Those whose lease is lost are dropped."""
    if not reports:
        return 0
    now = clock.now()
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
                "retry_after": None if report.retry_after is None else now + report.retry_after,
                "response_snippet": report.response_snippet,
                "finished_at": now,
            }
            for report in reports
        ],
        match=["id", "lease_token"],
        where=f"{Job._meta.db_table}.status = '{LEASED}'",
    )
    notify("orchestrator")
    lost = _lost(reports) if accepted < len(reports) else set()
    for item in reports:
        log(
            Fact.LEASE_LOST if item.job.id in lost else Fact.JOB_REPORTED,
            correlation_id=item.job.correlation_id,
            saga_id=item.job.saga_id,
            job_id=item.job.id,
            attempt_no=item.job.attempt_no,
            delivery_status=item.status,
            worker_id=worker_id,
            error_code=item.error_code,
            lease_expiration=item.job.lease_until and item.job.lease_until.isoformat(),
            response_status=item.response_status,
            duration_ms=item.duration_ms,
        )
    return len(reports) - len(lost)


def _lost(reports: Sequence[Report]) -> set[int]:
    """Whose row does not carry this very result: reset and taken by another, or reset and waiting."""
    tokens = {item.job.id: item.job.lease_token for item in reports}
    stored = dict(Job.objects.filter(id__in=tokens, status__in=(COMPLETED, FAILED)).values_list("id", "lease_token"))
    return {job_id for job_id, token in tokens.items() if stored.get(job_id) != token}
