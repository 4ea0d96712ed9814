"""One turn of a worker: lease jobs for the free slots, send them, collect responses, report results."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from subscriptions.credentials import OAuth2Client
from subscriptions.oauth2 import Token, Tokens, token_request
from subscriptions.redaction import response_snippet
from subscriptions.signing import Unsendable, oauth2_client
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.egress import error_codes
from webhookhub.egress.engine import Engine
from webhookhub.egress.messages import Response
from webhookhub.runner.hints import Flag, Hints
from webhookhub.runner.portions import Portion

from . import request
from .lease import LeasedJob, lease, lease_hinted, release
from .report import Report, report

# How long a result may wait to be reported together with others.
REPORT_DELAY_SECONDS = 0.02
# How long slots that become free are collected while there are more jobs than free slots.
COLLECT_SECONDS = 0.02
# The longest time a turn waits for the network.
POLL_SECONDS = 0.05
# The same while it only waits for responses: each of them ends the wait. Less than the engine's LONG_GAP_SECONDS.
QUIET_SECONDS = 0.5
# The share of the slots that bulk leaves to jobs that come one by one, while there are any.
RESERVED_SHARE = 0.2
# How long a job may wait in the worker for a free slot of its host.
MAX_QUEUED_SECONDS = 1.0


class TokenFetch(NamedTuple):
    """The tag of a request for a token, among those of the jobs."""

    client: OAuth2Client


class Worker:
    def __init__(self, worker_id: str, concurrency: int | None = None) -> None:
        self.worker_id = worker_id
        self._engine: Engine[LeasedJob | TokenFetch] = Engine(
            concurrency or hub().worker_concurrency, started=self._log_started
        )
        self._tokens: Tokens[LeasedJob] = Tokens(self._fetch_token)
        # The token that was sent with each job in flight that has one, by the job's id.
        self._sent_tokens: dict[int, tuple[OAuth2Client, Token]] = {}
        self._reports: list[Report] = []
        self._oldest_report = 0.0
        self._poll_soon = Flag()
        self._hints = Hints(self._poll_soon)
        self._portion = Portion(self._hints)
        self._collect_until = 0.0
        # How many jobs the query of the last turn has found.
        self.found = 0
        self._unsent: list[tuple[LeasedJob, timedelta]] = []
        self._clock = clock.Estimate()

    @property
    def open_jobs(self) -> int:
        """Jobs leased and not reported yet."""
        return self._engine.in_flight + len(self._reports) + len(self._unsent) + self._tokens.waiting

    @property
    def _free(self) -> int:
        return self._engine.free - len(self._reports) - self._tokens.waiting

    def turn(self, batch_size: int, *, poll: bool = True, wait: bool = True) -> int:
        """Returns 0 when there is nothing to send and nothing in flight. With `wait`, waits for the network."""
        leased = self._lease(batch_size, poll)
        finished = self._finish(batch_size, self._poll_seconds() if wait else 0.0)
        self._release()
        return leased + finished + self.open_jobs

    def idle_for(self) -> float:
        """For how many seconds no transfer needs attention unless one of its files is ready."""
        is_quiet = not (self._engine.has_queue or self._tokens.waiting)
        seconds = self._poll_seconds(longest=QUIET_SECONDS if is_quiet else POLL_SECONDS)
        return min(seconds, self._engine.idle_for())

    def files(self) -> tuple[list[int], list[int]]:
        """The file descriptors that transfers wait to read from and to write to."""
        return self._engine.files()

    def hint(self, job_ids: Sequence[int]) -> None:
        """These jobs may be ready; none means that any may be."""
        self._hints.add(job_ids)

    def hints_in(self) -> float:
        """After how many seconds it must lease jobs because of hints; infinite if there are none or no free slots."""
        free = self._free
        if free <= 0 or not (self._hints or self._poll_soon):
            return math.inf
        if self._hints.has_few:
            return 0.0
        free -= self._reserved
        if free <= 0:
            return math.inf
        return max(0.0, self._collect_until - time.monotonic()) if self._collects_slots(free) else 0.0

    def has_few(self) -> bool:
        return self._hints.has_few and self._free > 0

    def lease_few(self, batch_size: int) -> int:
        """Lease and send jobs that came one by one; returns how many."""
        ids = self._hints.take_few(min(batch_size, self._free))
        jobs = lease_hinted(self.worker_id, ids) if ids else []
        self._send_all(jobs)
        return len(jobs)

    @property
    def _reserved(self) -> int:
        return int(RESERVED_SHARE * self._engine.concurrency) if self._portion.is_short else 0

    def drain(self, batch_size: int) -> int:
        """Finish the leased jobs without leasing new ones; jobs that cannot be sent soon are released."""
        finished = self._finish(batch_size, self._poll_seconds(leasing=False))
        if not self._engine.in_flight:
            finished += self._flush(batch_size)  # no further results to report them with
        self._release()
        return finished

    def collect(self, seconds: float) -> None:
        """Drive transfers and keep their results, without using the database."""
        # Even while the database is lost: a request that has waited must not be sent with an old timestamp.
        for tag in self._engine.withdraw(MAX_QUEUED_SECONDS):
            if isinstance(tag, TokenFetch):
                self._defer_for_token(tag.client, self._tokens.note_withdrawn(tag.client))
            else:
                self._sent_tokens.pop(tag.id, None)
                self._defer(tag)
        for client, job in self._tokens.withdraw(MAX_QUEUED_SECONDS):
            self._defer_for_token(client, [job])
        for tag, response in self._engine.poll(seconds):
            if isinstance(tag, TokenFetch):
                self._use_token(tag.client, response)
            else:
                self._add(self._as_report(tag, response))

    def close(self) -> None:
        self._engine.close()

    def _lease(self, batch_size: int, poll: bool) -> int:
        """Lease no more jobs than there are free slots: a job that waits in a worker wastes its lease."""
        self.found = 0
        count = self.lease_few(batch_size)
        slots = self._free - self._reserved
        if slots <= 0:
            if poll:
                self._poll_soon.set()
            return count
        if (not poll and self._collects_slots(slots)) or not (poll or self._poll_soon or self._hints):
            return count
        started = time.monotonic()
        count += self._portion.run(min(batch_size, slots), lambda limit: self._lease_bulk(limit, poll))
        # At most half of the time is spent on leasing, however many slots become free one by one.
        self._collect_until = max(2 * time.monotonic() - started, started + COLLECT_SECONDS)
        return count

    def _lease_bulk(self, limit: int, poll: bool) -> int:
        # Polling takes the longest waiting jobs: before hinted ones.
        jobs = self._poll(limit) if poll or self._poll_soon else []
        if len(jobs) < limit and (hinted := self._hints.take_bulk(limit - len(jobs))):
            jobs += lease_hinted(self.worker_id, hinted)
        self._send_all(jobs)
        return len(jobs)

    def _send_all(self, jobs: Sequence[LeasedJob]) -> None:
        if jobs:
            self._clock.measure_if_due()
            now = int(self._clock.now().timestamp())
            for job in jobs:
                self._send(job, now)

    def _collects_slots(self, free: int) -> bool:
        """Whether to wait until more slots are free: a lease costs about the same for one job as for twenty."""
        has_more = self._poll_soon or len(self._hints) > free
        return has_more and 2 * free < self._engine.concurrency and time.monotonic() < self._collect_until

    def _poll(self, free: int) -> list[LeasedJob]:
        jobs = lease(self.worker_id, free)
        self.found = len(jobs)
        self._poll_soon.take()
        if len(jobs) == free:
            self._poll_soon.set()  # there may be more, for the next free slots
        return jobs

    def _send(self, job: LeasedJob, now: int) -> None:
        if not (job.active and job.verified) or job.disabled_at is not None or job.customer_disabled_at is not None:
            # Switched off since the job was created: postpone it, like a delivery without a job.
            self._unsent.append((job, hub().postpone))
        elif job.lease_resets > hub().max_lease_resets:
            # Its earlier workers did not come back; this job may be what stops them.
            self._fail(job, error_codes.LEASE_EXPIRED)
        elif not self._engine.accepts(job.endpoint.callback_url):
            self._defer(job)
        else:
            try:
                self._submit(job, now)
            except Unsendable as error:
                self._fail(job, error.error_code)

    def _submit(self, job: LeasedJob, now: int) -> None:
        client = None if job.endpoint.credentials is None else oauth2_client(job.endpoint)
        if client is None:
            self._engine.submit(job, request.build(job, now))
            return
        token = self._tokens.get(client, job)
        if token is None:
            return  # it waits for the token
        if token.error_code:
            self._fail(job, token.error_code)
            return
        built = request.build(job, now, token.header)
        self._sent_tokens[job.id] = client, token
        self._engine.submit(job, built)

    def _fetch_token(self, client: OAuth2Client) -> None:
        self._engine.submit(TokenFetch(client), token_request(client))

    def _use_token(self, client: OAuth2Client, response: Response) -> None:
        """Send the jobs that have waited for this token, or fail or defer them without one."""
        token, jobs = self._tokens.note_response(client, response)
        now = int(self._clock.now().timestamp())
        if not token.text and not token.error_code:
            self._defer_for_token(client, jobs)
            return
        for job in jobs:
            if token.error_code:
                self._fail(job, token.error_code)
            else:
                self._send(job, now)

    def _defer_for_token(self, client: OAuth2Client, jobs: Sequence[LeasedJob]) -> None:
        self._unsent += [(job, timedelta(seconds=self._tokens.wait(client))) for job in jobs]

    def _fail(self, job: LeasedJob, error_code: str) -> None:
        """Report a failure without sending."""
        self._log_started(job)
        self._add(Report(job, error_code))

    def _log_started(self, tag: LeasedJob | TokenFetch) -> None:
        """Not when it is leased: a job that waits for its host may be released unsent."""
        if not isinstance(tag, TokenFetch):
            tag.log_leased(self.worker_id)

    def _defer(self, job: LeasedJob) -> None:
        """Release the job for a while, because its host is busy."""
        self._unsent.append((job, timedelta(seconds=self._engine.defer_seconds(job.endpoint.callback_url))))

    def _finish(self, batch_size: int, seconds: float) -> int:
        """Drive transfers, waiting at most `seconds` for a response, and report results that are due."""
        self.collect(seconds)
        return self._flush(batch_size) if self._due() or len(self._reports) >= batch_size else 0

    def _poll_seconds(self, *, leasing: bool = True, longest: float = POLL_SECONDS) -> float:
        """How long to wait for the network: until the next read from or write to the database."""
        if self._unsent or self._due():
            return 0.0  # after deferring jobs, look at once for others that can be sent
        seconds = min(longest, self.hints_in()) if leasing else longest
        if self._reports:
            seconds = min(seconds, self._oldest_report + REPORT_DELAY_SECONDS - time.monotonic())
        return max(0.0, seconds)

    def _release(self) -> None:
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
            return True  # unreported results occupy half of the slots
        return time.monotonic() - self._oldest_report >= REPORT_DELAY_SECONDS

    def _flush(self, batch_size: int) -> int:
        batch = self._reports[:batch_size]
        report(self.worker_id, batch)
        # After the write: if the database is lost, the results are kept until it is back.
        del self._reports[: len(batch)]
        return len(batch)

    def _as_report(self, job: LeasedJob, response: Response) -> Report:
        token = Token()
        if self._sent_tokens and (sent := self._sent_tokens.pop(job.id, None)) is not None:
            client, token = sent
            if response.status == 401:
                self._tokens.note_unauthorized(client, token.text)
        return Report(
            job,
            error_code=response.error_code,
            response_status=response.status,
            duration_ms=response.duration_ms,
            retry_after=request.retry_after(response.retry_after, self._clock.now()),
            response_snippet=response_snippet(job.endpoint, response.body, token.text),
        )
