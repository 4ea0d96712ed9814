"""What the tables must hold after each step: the protocol in plain Python, from its rules and not from the code.

A step that writes more than once is a generator that yields after each write; stopping it there is the crash of the
process that ran it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

Writes = Iterator[None]

BASE_DELAY = timedelta(seconds=10)
MAX_DELAY = timedelta(seconds=15)
RETRY_AFTER_CAP = timedelta(seconds=40)
POSTPONE = timedelta(seconds=30)
PARKED = datetime(9000, 1, 1, tzinfo=UTC)
# Attempts of an endpoint that an orchestrator admits when it has just started.
WINDOW = 2
LEASE = timedelta(seconds=60)
WAITING = ("Pending", "PendingRetry")
PASS_INTERVAL = timedelta(seconds=1)


@dataclass(eq=False)
class Subscription:
    number: int
    limit: int
    active: bool = True
    verified: bool = True

    @property
    def routable(self) -> bool:
        return self.active and self.verified


@dataclass(eq=False)
class Saga:
    event: int
    subscription: Subscription
    generation: int
    next_at: datetime
    limit: int
    status: str = "Pending"
    attempts: int = 0
    error: str | None = None
    abandoned_by: Request | None = None

    @property
    def is_open(self) -> bool:
        return self.status not in ("Completed", "DeadLettered")

    @property
    def waits(self) -> bool:
        return self.status in ("Pending", "PendingRetry")

    @property
    def key(self) -> tuple[int, int, int]:
        return self.event, self.subscription.number, self.generation

    @property
    def is_parked(self) -> bool:
        return self.next_at == PARKED and self.status in WAITING


@dataclass(eq=False)
class Job:
    saga: Saga
    attempt_no: int
    lease_until: datetime
    attempt_at: datetime
    status: str = "Pending"
    token: str = ""
    worker: str = ""
    resets: int = 0
    error: str | None = None
    finished_at: datetime | None = None
    retry_after: datetime | None = None
    settled: bool = False

    @property
    def is_open(self) -> bool:
        return self.status in ("Pending", "Leased")


@dataclass(eq=False)
class Letter:
    saga: Saga
    error: str
    failed_at: datetime
    requeued_by: str | None = None


@dataclass(eq=False)
class Request:
    """For one saga, or for all of a subscription among the first `bound`."""

    kind: str
    by: str
    saga: Saga | None
    subscription: Subscription | None
    bound: int
    due_at: datetime | None
    scanned: int = 0
    left: int | None = None
    changed: int = 0


@dataclass
class Model:
    now: datetime
    subscriptions: list[Subscription]
    events: list[int] = field(default_factory=list)
    inbox: list[int] = field(default_factory=list)
    sagas: list[Saga] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def commit(self, events: Iterable[int]) -> None:
        """Events become visible; their numbers are in the order of their inserts, whenever they are committed."""
        new = list(events)
        self.events = sorted(self.events + new)
        self.inbox = sorted(self.inbox + new)

    def route(self, batch: int) -> int:
        taken, self.inbox = self.inbox[:batch], self.inbox[batch:]
        for event in taken:
            for subscription in self.subscriptions:
                if subscription.routable:
                    self._birth(event, subscription, 0)
        return len(taken)

    def dispatch(self, batch: int) -> Writes:
        for status in ("Pending", "PendingRetry"):
            waiting = [saga for saga in self.sagas if saga.status == status and saga.next_at <= self.now]
            due = sorted(waiting, key=lambda saga: saga.next_at)[:batch]
            go = [saga for saga in due if saga.subscription.routable]
            off = [saga for saga in due if not saga.subscription.routable]
            yield from self._start_attempts(go)
            follow = [saga for saga in off if self._next_job(saga)]
            for group in _of_one_count(follow):
                yield from self._start(group)
            if parked := [saga for saga in off if saga not in follow]:
                for saga in parked:
                    saga.next_at = PARKED
                yield

    def admit(self, batch: int) -> Writes:
        """By an orchestrator that has just started: its windows are small, and it counts the open jobs."""
        open_jobs = {
            subscription: [job for job in self.jobs if job.is_open and job.saga.subscription is subscription]
            for subscription in self.subscriptions
        }
        admitted: list[Saga] = []
        for subscription in sorted(self.subscriptions, key=lambda each: (len(open_jobs[each]), each.limit)):
            parked = [saga for saga in self.sagas if saga.is_parked and saga.subscription is subscription]
            if subscription.routable:
                admitted += parked[: max(0, min(WINDOW - len(open_jobs[subscription]), batch - len(admitted)))]
        admitted.sort(key=self.sagas.index)
        for status in WAITING:
            if waiting := [saga for saga in admitted if saga.status == status]:
                for saga in waiting:
                    saga.next_at = self.now
                yield
                yield from self._start_attempts(waiting)

    def _start_attempts(self, sagas: Sequence[Saga]) -> Writes:
        for group in _of_one_count(sagas):
            new = [saga for saga in group if not saga.abandoned_by and not self._next_job(saga)]
            self.jobs += [Job(saga, saga.attempts + 1, self.now, saga.next_at) for saga in new]
            yield
            if started := [saga for saga in group if self._next_job(saga)]:
                yield from self._start(started)

    def _start(self, sagas: Sequence[Saga]) -> Writes:
        for saga in sagas:
            saga.status = "InProgress"
        yield

    def ready(self, limit: int) -> list[Job]:
        """The jobs a lease takes, in the order of their ids."""
        ready = [job for job in self.jobs if job.status == "Pending" and job.lease_until <= self.now]
        taken = sorted(ready, key=lambda job: job.lease_until)[:limit]
        return [job for job in self.jobs if job in taken]

    def lease(self, jobs: Sequence[Job], worker: str, token: str) -> None:
        for job in jobs:
            job.status, job.worker, job.token, job.lease_until = "Leased", worker, token, self.now + LEASE

    def held(self, job: Job, token: str) -> bool:
        return job.status == "Leased" and job.token == token

    def report(self, job: Job, token: str, error: str | None, retry_after: timedelta | None) -> bool:
        """Whether the row carries this very lease's result now; a repetition finds that it does."""
        if self.held(job, token):
            job.status, job.error, job.finished_at = "Failed" if error else "Completed", error, self.now
            job.retry_after = None if retry_after is None else self.now + retry_after
        return job.finished_at is not None and job.token == token

    def release(self, job: Job, token: str, delay: timedelta) -> None:
        if self.held(job, token):
            job.status, job.lease_until = "Pending", self.now + delay

    def clean(self, batch: int) -> int:
        expired = [job for job in self.jobs if job.status == "Leased" and job.lease_until < self.now]
        taken = sorted(expired, key=lambda job: job.lease_until)[:batch]
        for job in taken:
            job.status, job.lease_until, job.resets = "Pending", self.now, job.resets + 1
        return len(taken)

    def settle(self, batch: int, after: dict[str, int]) -> Writes:
        """`after` is how far the settler has read: it goes on behind that, so that nothing hides what follows."""
        for status in ("Completed", "Failed"):
            numbered = enumerate(self.jobs, 1)
            unsettled = [pair for pair in numbered if pair[1].status == status and not pair[1].settled]
            read = [pair for pair in unsettled if pair[0] > after.get(status, 0)][:batch]
            jobs = [job for _, job in read]
            late = [job.saga for job in jobs if job.saga.status in WAITING and job.saga.attempts == job.attempt_no - 1]
            for waiting in WAITING:
                for lagging in _of_one_count([saga for saga in late if saga.status == waiting]):
                    yield from self._start(lagging)
            awaited = [job for job in jobs if self._awaits(job)]
            last = [job for job in awaited if job.error and job.attempt_no >= job.saga.limit]
            again = [job for job in awaited if job.error and job not in last]
            for group in _alike(job for job in awaited if not job.error):
                for job in group:
                    job.saga.status, job.saga.attempts = "Completed", job.attempt_no
                yield
            if again:
                for job in again:
                    saga = job.saga
                    saga.status, saga.attempts, saga.error = "PendingRetry", job.attempt_no, job.error
                    saga.next_at = self._next_at(job)
                yield
            if last:
                for job in (job for group in _alike(last) for job in group):
                    if not self.letter(job.saga):
                        self.letters.append(Letter(job.saga, job.error or "", self.now))
                yield
            for group in _alike(last):
                for job in group:
                    job.saga.status, job.saga.attempts, job.saga.error = "DeadLettered", job.attempt_no, job.error
                yield
            if applied := [job for job in jobs if job.saga.attempts >= job.attempt_no]:
                for job in applied:
                    job.settled = True
                yield
            after[status] = read[-1][0] if len(read) == batch else 0

    def requeue(self, letter: Letter, by: str) -> Writes:
        if letter.requeued_by is None:
            letter.requeued_by = by
            self._birth(letter.saga.event, letter.saga.subscription, letter.saga.generation + 1)
            yield  # the record, the audit entry and the saga

    def may_request(self, kind: str, saga: Saga) -> bool:
        if kind == "send_now":
            return saga.waits and not saga.abandoned_by
        return saga.is_open if kind == "abandon" else not saga.is_open and not self._follower(saga)

    def request(self, kind: str, by: str, saga: Saga | None, subscription: Subscription | None) -> None:
        self.requests.append(Request(kind, by, saga, subscription, len(self.sagas), self.now))

    def apply(self, batch: int) -> Writes:
        due = [request for request in self.requests if request.due_at and request.due_at <= self.now]
        if not due:
            return
        request = min(due, key=lambda each: each.due_at or self.now)
        if request.kind == "send_again":
            assert request.saga is not None
            self._send_again(request, request.saga)
            self._advance(request, request.bound, None, at_end=True)
            yield
            return
        sagas, upto, at_end = self._batch(request, batch)
        if request.kind == "send_now":
            for saga in sagas:
                tried = any(job.saga is saga and job.attempt_at >= self.now for job in self.jobs)
                later = self.now < saga.next_at and not saga.is_parked
                if saga.waits and later and not saga.abandoned_by and not tried:
                    saga.next_at = self.now
                    request.changed += 1
            self._advance(request, upto, None, at_end)
            yield
            return
        if unmarked := [saga for saga in sagas if not saga.abandoned_by]:
            for saga in unmarked:
                saga.abandoned_by = request
            yield
        own = [saga for saga in sagas if saga.abandoned_by is request]
        doomed = [saga for saga in own if saga.waits and not self._next_job(saga)]
        if doomed:
            for saga in doomed:
                if not self.letter(saga):
                    self.letters.append(Letter(saga, "abandoned", self.now))
            yield
        for saga in doomed:
            saga.status, saga.error = "DeadLettered", "abandoned"
        request.changed += len(doomed)
        left = [self.sagas.index(saga) for saga in own if saga not in doomed]
        self._advance(request, upto, min(left, default=None), at_end)
        yield

    def _batch(self, request: Request, batch: int) -> tuple[list[Saga], int, bool]:
        """The open sagas that it is for, among the next ones; up to which place they were read; whether that is all."""
        if request.saga is not None:
            saga = request.saga
            return ([saga] if saga.is_open else []), request.bound, True
        places = [place for place in range(request.scanned, request.bound) if self.sagas[place].is_open]
        at_end = len(places) < batch
        read = [self.sagas[place] for place in places[:batch]]
        mine = [saga for saga in read if saga.abandoned_by is request]
        free = [saga for saga in read if not saga.abandoned_by and saga.subscription is request.subscription]
        return mine + free, request.bound if at_end else places[batch - 1] + 1, at_end

    def _advance(self, request: Request, upto: int, left: int | None, at_end: bool) -> None:
        request.left = left if request.left is None else request.left
        request.scanned, request.due_at = upto, self.now
        if at_end and request.left is not None:
            request.scanned, request.left, request.due_at = request.left, None, self.now + PASS_INTERVAL
        elif at_end:
            request.due_at = None

    def _send_again(self, request: Request, saga: Saga) -> None:
        letter = self.letter(saga)
        if letter is not None and letter.requeued_by is None:
            letter.requeued_by = request.by
        request.changed += self._birth(saga.event, saga.subscription, saga.generation + 1)

    def _follower(self, saga: Saga) -> Saga | None:
        key = (*saga.key[:2], saga.generation + 1)
        return next((other for other in self.sagas if other.key == key), None)

    def letter(self, saga: Saga) -> Letter | None:
        return next((letter for letter in self.letters if letter.saga is saga), None)

    def at_rest(self) -> bool:
        """Nothing is left to do but to wait for new events."""
        ended = all(saga.status in ("Completed", "DeadLettered") for saga in self.sagas)
        applied = all(request.due_at is None for request in self.requests)
        return ended and applied and not self.inbox and all(job.settled for job in self.jobs)

    def _birth(self, event: int, subscription: Subscription, generation: int) -> bool:
        saga = Saga(event, subscription, generation, self.now, subscription.limit)
        if saga.key in {other.key for other in self.sagas}:
            return False
        self.sagas.append(saga)
        return True

    def _job(self, saga: Saga, attempt_no: int) -> Job | None:
        return next((job for job in self.jobs if job.saga is saga and job.attempt_no == attempt_no), None)

    def _next_job(self, saga: Saga) -> Job | None:
        return self._job(saga, saga.attempts + 1)

    def _awaits(self, job: Job) -> bool:
        return job.saga.status == "InProgress" and job.saga.attempts == job.attempt_no - 1

    def _next_at(self, job: Job) -> datetime:
        assert job.finished_at is not None
        at = job.finished_at + min(BASE_DELAY * (1 << job.attempt_no - 1), MAX_DELAY)
        if job.retry_after is not None:
            at = max(at, min(job.retry_after, job.finished_at + RETRY_AFTER_CAP))
        return at


def _of_one_count(sagas: Sequence[Saga]) -> list[list[Saga]]:
    counts = dict.fromkeys(saga.attempts for saga in sagas)
    return [[saga for saga in sagas if saga.attempts == count] for count in counts]


def _alike(jobs: Iterable[Job]) -> list[list[Job]]:
    """Results that one statement applies: those of one attempt number and error, in the order they first come up."""
    groups: dict[tuple[int, str | None], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.attempt_no, job.error), []).append(job)
    return list(groups.values())


def finish(step: Writes, writes: int | None = None) -> int:
    """Run a step to its end, or until it has written `writes` times; returns how often it has written."""
    done = 0
    while done != writes:
        try:
            next(step)
        except StopIteration:
            break
        done += 1
    return done
