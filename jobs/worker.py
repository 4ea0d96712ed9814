"""One turn of a worker: collect answers, report them, take new jobs for the free slots, send them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from subscriptions.signed_request import Unsendable, response_snippet
from webhookhub.conf import hub
from webhookhub.egress import errors
from webhookhub.egress.engine import Engine
from webhookhub.egress.messages import Response
from webhookhub.runner.backoff import Backoff

from . import request
from .lease import LeasedJob, lease
from .release import release
from .report import Report, report

# How long an answer may wait for others to be reported with it.
REPORT_DELAY_SECONDS = 0.02
# How long a turn waits for the network at most.
POLL_SECONDS = 0.05
# How long a job may wait in the worker for its receiver to have fewer requests under way.
PATIENCE_SECONDS = 1.0


class Worker:
    def __init__(self, worker_id: str, concurrency: int | None = None) -> None:
        self.worker_id = worker_id
        self._engine: Engine[LeasedJob] = Engine(concurrency or hub().worker_concurrency)
        self._reports: list[Report] = []
        self._oldest_report = 0.0
        self._lease_again_at = 0.0
        self._lease_at_soonest = 0.0
        self._pauses = Backoff(hub().poll_interval.total_seconds())
        self._unsent: list[tuple[LeasedJob, timedelta]] = []

    @property
    def open_jobs(self) -> int:
        """Jobs taken and not reported yet."""
        return self._engine.in_flight + len(self._reports) + len(self._unsent)

    def turn(self, batch_size: int) -> int:
        """Returns how much there was to do; 0 when there is nothing to send and nothing under way."""
        leased = self._take(batch_size)
        finished = self._finish(batch_size)
        self._give_back()
        return leased + finished + self.open_jobs

    def idle_for(self) -> float:
        """For how many seconds there is nothing to listen to: results wait for others to be reported with them."""
        return 0.0 if self._engine.in_flight else self._patience()

    def lease_soon(self) -> None:
        """There may be something to take again."""
        self._lease_again_at = min(self._lease_again_at, self._lease_at_soonest)

    def wind_up(self, batch_size: int) -> int:
        """Finish what has been taken, without taking new jobs; what cannot be sent soon is given back."""
        finished = self._finish(batch_size, taking=False)
        if not self._engine.in_flight:
            finished += self._flush(batch_size)  # no others will come to be reported with them
        self._give_back()
        return finished

    def collect(self, seconds: float) -> None:
        """Move transfers on and keep what they bring, without touching the database."""
        # However long the database is lost: a request that has waited must not be sent with its old timestamp.
        for job in self._engine.withdraw(PATIENCE_SECONDS):
            self._turn_away(job)
        for job, answer in self._engine.poll(seconds):
            self._add(_as_report(job, answer))

    def close(self) -> None:
        self._engine.close()

    def _take(self, batch_size: int) -> int:
        """Take no more jobs than there are free slots: a job that waits in a worker wastes its lease."""
        free = min(batch_size, self._engine.free - len(self._reports))
        if free <= 0 or time.monotonic() < self._lease_again_at:
            return 0
        asked_at = time.monotonic()
        jobs = lease(self.worker_id, free)
        took = time.monotonic() - asked_at
        # Nobody asks more than half of the time, however often it hears that there is something.
        self._lease_at_soonest = asked_at + 2 * took
        if jobs:
            self._pauses.reset()
        if len(jobs) < free and (jobs or self.open_jobs):
            # Nothing more is ready; while transfers keep this loop turning, do not ask at every turn.
            self._lease_again_at = asked_at + took + self._pauses.after(took)
        now = int(time.time())
        for job in jobs:
            self._send(job, now)
        return len(jobs)

    def _send(self, job: LeasedJob, now: int) -> None:
        if not (job.active and job.verified):
            # Switched off, or its address changed, since the job was made: it waits, as deliveries without a job do.
            self._unsent.append((job, hub().postpone))
        elif job.lease_resets > hub().max_lease_resets:
            # Whoever took it before did not come back. Perhaps it is the job that does that.
            self._add(Report(job, errors.LEASE_EXPIRED))
        elif not self._engine.accepts(job.endpoint.callback_url):
            self._turn_away(job)
        else:
            try:
                self._engine.submit(job, request.build(job, now))
            except Unsendable as reason:
                self._add(Report(job, reason.error_code))

    def _turn_away(self, job: LeasedJob) -> None:
        """Its receiver is busy: leave the way to others."""
        self._unsent.append((job, timedelta(seconds=self._engine.wait_seconds(job.endpoint.callback_url))))

    def _finish(self, batch_size: int, *, taking: bool = True) -> int:
        """Move transfers on and report what is ready."""
        self.collect(self._patience(taking))
        return self._flush(batch_size) if self._due() or len(self._reports) >= batch_size else 0

    def _patience(self, taking: bool = True) -> float:
        """How long to wait for the network: until there is something to ask of the database, or to tell it."""
        if self._unsent or self._due():
            return 0.0  # whoever has turned jobs away looks at once for others that can be sent
        now = time.monotonic()
        until = now + POLL_SECONDS
        if taking and self._engine.free > len(self._reports):
            until = min(until, self._lease_again_at)
        if self._reports:
            until = min(until, self._oldest_report + REPORT_DELAY_SECONDS)
        return max(0.0, until - now)

    def _give_back(self) -> None:
        """Return what cannot be sent now, before it takes up room that others could use or its lease runs out."""
        release(self.worker_id, self._unsent)
        self._unsent.clear()

    def _add(self, item: Report) -> None:
        if not self._reports:
            self._oldest_report = time.monotonic()
        self._reports.append(item)

    def _due(self) -> bool:
        if not self._reports:
            return False
        if not self._engine.in_flight and 2 * len(self._reports) >= self._engine.free:
            return True  # they are many already, and keep the slots from being used
        return time.monotonic() - self._oldest_report >= REPORT_DELAY_SECONDS

    def _flush(self, batch_size: int) -> int:
        batch = self._reports[:batch_size]
        report(self.worker_id, batch)
        # Only now: if the database was lost, the results are still here when it is back.
        del self._reports[: len(batch)]
        return len(batch)


def _as_report(job: LeasedJob, answer: Response) -> Report:
    return Report(
        job,
        error_code=answer.error_code,
        response_status=answer.status,
        duration_ms=answer.duration_ms,
        retry_after=request.retry_after(answer.retry_after, datetime.now(UTC)),
        response_snippet=response_snippet(job.endpoint, answer.body),
    )
