"""One turn of a worker: collect answers, report them, take new jobs for the free slots, send them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from subscriptions.envelope import Unsendable
from webhookhub.conf import hub
from webhookhub.egress import errors
from webhookhub.egress.curl import Engine
from webhookhub.egress.messages import Answer
from webhookhub.egress.snippets import snippet

from . import request
from .lease import LeasedJob, lease
from .release import release
from .report import Report, report

# How long an answer may wait for others to be reported with it.
REPORT_DELAY_SECONDS = 0.02
# How long a turn waits for the network before it looks at the database again.
POLL_SECONDS = 0.05


class Worker:
    def __init__(self, worker_id: str, concurrency: int | None = None) -> None:
        self.worker_id = worker_id
        self._engine: Engine[LeasedJob] = Engine(concurrency or hub().worker_concurrency)
        self._reports: list[Report] = []
        self._oldest_report = 0.0
        self._lease_again_at = 0.0
        self._withdrawn: list[LeasedJob] = []

    @property
    def open_jobs(self) -> int:
        """Jobs taken and not reported yet."""
        return self._engine.in_flight + len(self._reports)

    def turn(self, batch_size: int) -> int:
        """Returns how much there was to do; 0 when there is nothing to send and nothing under way."""
        leased = self._take(batch_size)
        self._give_back(_longest_wait())
        return leased + self._finish(batch_size) + self.open_jobs

    def wind_up(self, batch_size: int) -> int:
        """Finish what is under way, without taking new jobs; what is not sent yet is given back."""
        self._give_back(0)
        return self._finish(batch_size)

    def close(self) -> None:
        self._engine.close()

    def _take(self, batch_size: int) -> int:
        """Take no more jobs than there are free slots: a job that waits in a worker wastes its lease."""
        free = min(batch_size, self._engine.free - len(self._reports))
        if free <= 0 or time.monotonic() < self._lease_again_at:
            return 0
        jobs = lease(self.worker_id, free)
        if len(jobs) < free and self._engine.in_flight:
            # Nothing more is ready; while transfers keep this loop turning, do not ask at every turn.
            self._lease_again_at = time.monotonic() + hub().poll_interval.total_seconds()
        now = datetime.now(UTC)
        for job in jobs:
            if job.lease_resets > hub().max_lease_resets:
                # Whoever took it before did not come back. Perhaps it is the job that does that.
                self._add(Report(job, errors.LEASE_EXPIRED))
                continue
            try:
                self._engine.submit(job, request.build(job, now))
            except Unsendable as reason:
                self._add(Report(job, reason.error_code))
        return len(jobs)

    def _finish(self, batch_size: int) -> int:
        """Move transfers on and report what is ready."""
        for job, answer in self._engine.poll(0 if self._due() else POLL_SECONDS):
            self._add(_as_report(job, answer))
        return self._flush(batch_size) if self._due() or len(self._reports) >= batch_size else 0

    def _give_back(self, seconds: float) -> None:
        """Jobs whose receiver has too many under way, before their lease could run out during the request."""
        self._withdrawn += self._engine.withdraw(seconds)
        if self._withdrawn:
            release(self.worker_id, self._withdrawn)
            self._withdrawn.clear()

    def _add(self, item: Report) -> None:
        if not self._reports:
            self._oldest_report = time.monotonic()
        self._reports.append(item)

    def _due(self) -> bool:
        if not self._reports:
            return False
        return not self._engine.in_flight or time.monotonic() - self._oldest_report >= REPORT_DELAY_SECONDS

    def _flush(self, batch_size: int) -> int:
        batch = self._reports[:batch_size]
        report(self.worker_id, batch)
        # Only now: if the database was lost, the results are still here when it is back.
        del self._reports[: len(batch)]
        return len(batch)


def _longest_wait() -> float:
    settings = hub()
    return max(0.0, (settings.lease - settings.request_timeout - settings.lease_margin).total_seconds())


def _as_report(job: LeasedJob, answer: Answer) -> Report:
    return Report(
        job,
        error_code=answer.error_code,
        response_status=answer.status,
        duration_ms=answer.duration_ms,
        retry_after=request.retry_after(answer.retry_after, datetime.now(UTC)),
        response_snippet=snippet(answer.body),
    )
