"""Flow control: which deliveries may have their next attempt now, and which wait in the park.

One busy, silent or paused endpoint must not delay the others. A delivery beyond its endpoint's window is queued in
memory if its turn comes within a moment. Otherwise it is parked once and admitted when the window opens; while it
waits, it costs nothing. Two orchestrators may together exceed a window by a batch; a rate limit holds across all of
them.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from jobs.models import Job
from subscriptions.cache import versions
from subscriptions.endpoints import SubscribedEndpoint, endpoints_of, rate_limits, take_slots
from webhookhub.conf import hub
from webhookhub.logs import Log, log

from .health import EndpointMonitor
from .parking import ParkedSubscriptions
from .queues import Queued, Queues
from .windows import Windows

T = TypeVar("T")
# How often the open attempts and the park are read: while they change, and at least.
SWEEP_SECONDS = 1.0
IDLE_SWEEP_SECONDS = 5.0
# How often the waiting deliveries are logged.
LOG_SECONDS = 60.0
UNKNOWN = SubscribedEndpoint(0, is_routable=False)


class SettledResult(NamedTuple):
    job_id: int
    subscription_id: int
    error_code: str | None
    duration_ms: int | None


class Admission(NamedTuple):
    """At most `limit` parked deliveries of an endpoint may have their next attempt now."""

    endpoint: int
    subscription_ids: Collection[int]
    limit: int


class Flow:
    def __init__(self, *, unlimited: bool = False) -> None:
        """`unlimited`: every delivery to an active and verified subscription may go at once."""
        settings = hub()
        pause = settings.probe_interval.total_seconds()
        self.windows = Windows(
            settings.endpoint_window, settings.breaker_failures, pause, connections=settings.requests_per_host
        )
        self._monitor = EndpointMonitor()
        self._unlimited = unlimited
        self._endpoints: dict[int, SubscribedEndpoint] = {}
        self._version: int | None = None
        self._rate_limits: dict[int, int] = {}
        # When the next slot of a limited endpoint is free.
        self._slots_at: dict[int, float] = {}
        self.queues = Queues()
        self._park = ParkedSubscriptions()
        # The subscriptions with parked sagas, by their endpoint; without those that are switched off.
        self._parked: dict[int, set[int]] = {}
        # The subscriptions of the park as last compared with the table, and those of them that may get attempts.
        self._read_park: set[int] = set()
        self._routable: set[int] = set()
        self._routable_version: int | None = None
        # Endpoints with waiting deliveries whose window may have opened.
        self._opened: set[int] = set()
        self._sweep_at = 0.0
        self._sweep_seconds = SWEEP_SECONDS
        # Whether attempts were opened or have ended since the last sweep.
        self._has_changed = False
        # When a parked delivery may be a probe, or has a free slot.
        self._wake_at = 0.0
        self._newly_parked: Counter[int] = Counter()
        self._log_at = time.monotonic() + LOG_SECONDS

    def endpoint(self, subscription_id: int) -> int:
        """The endpoint's id, as last read."""
        if subscription_id not in self._endpoints:
            self._endpoints[subscription_id] = endpoints_of([subscription_id]).get(subscription_id, UNKNOWN)
        return self._endpoints[subscription_id].id

    def routable(self, subscription_ids: Collection[int]) -> set[int]:
        """Those of these subscriptions that may get new attempts, as the database has them now."""
        endpoints = endpoints_of(subscription_ids) if subscription_ids else {}
        self._endpoints.update(endpoints)
        return {pk for pk, endpoint in endpoints.items() if endpoint.is_routable}

    def split(self, rows: Sequence[T], subscription_of: Callable[[T], int]) -> tuple[list[T], list[T]]:
        """The first of these deliveries that may have an attempt now, and the others.

        Where deliveries wait, all others wait behind them.
        """
        if self._unlimited:
            return list(rows), []
        by_endpoint: dict[int, list[T]] = defaultdict(list)
        for row in rows:
            by_endpoint[self.endpoint(subscription_of(row))].append(row)
        go: list[T] = []
        wait: list[T] = []
        for endpoint, waiting in by_endpoint.items():
            count = 0 if self._has_waiting(endpoint) else self._take(endpoint, len(waiting))
            go += waiting[:count]
            wait += waiting[count:]
        return go, wait

    def note_opened(self, attempts: Iterable[tuple[int, int]]) -> None:
        """Attempts (subscription id, job id) that exist now."""
        by_endpoint: dict[int, list[int]] = defaultdict(list)
        for subscription_id, job_id in attempts:
            by_endpoint[self.endpoint(subscription_id)].append(job_id)
        now = time.monotonic()
        for endpoint, ids in by_endpoint.items():
            self.windows.note_opened(endpoint, ids, now)
        if by_endpoint:
            self._sweep_soon()

    def queue(self, deliveries: Sequence[tuple[int, int]]) -> set[int]:
        """Queue first attempts (saga id, subscription id) whose turn comes soon; returns the ids of the queued ones."""
        by_endpoint: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for delivery in deliveries:
            by_endpoint[self.endpoint(delivery[1])].append(delivery)
        queued: set[int] = set()
        for endpoint, waiting in by_endpoint.items():
            if endpoint not in self._parked and endpoint not in self._rate_limits:
                count = self.queues.add(endpoint, waiting, self.windows.per_second(endpoint))
                queued.update(pk for pk, _ in waiting[:count])
                if count:
                    self._opened.add(endpoint)
        if queued:
            self._sweep_soon()
        return queued

    def dequeue(self, limit: int) -> list[Queued]:
        """Remove and return queued deliveries that may go now."""
        now = time.monotonic()
        found: list[Queued] = []
        for endpoint in self._most_idle(endpoint for endpoint in self._opened if endpoint in self.queues):
            if len(found) < limit and self._may_admit(endpoint, now):
                wanted = min(limit - len(found), self.queues.length(endpoint))
                found += self.queues.take(endpoint, self._take(endpoint, wanted))
            if endpoint not in self._parked and (endpoint not in self.queues or len(found) < limit):
                self._opened.discard(endpoint)
        return found

    def note_off(self, subscription_ids: Collection[int]) -> None:
        """Deliveries of these subscriptions, which get no attempts, were parked."""
        self._park.add(subscription_ids)

    def note_parked(self, subscription_ids: Sequence[int]) -> None:
        """Deliveries of these subscriptions, which may get attempts, were parked."""
        self._park.add(subscription_ids)
        for subscription_id in subscription_ids:
            self._parked.setdefault(self.endpoint(subscription_id), set()).add(subscription_id)
        self._newly_parked.update(subscription_ids)
        self._opened.update(self.endpoint(subscription_id) for subscription_id in subscription_ids)
        self._sweep_soon()

    def note_finished(self, job_ids: Iterable[int]) -> None:
        """Attempts that may have a result, as hints name them."""
        finished = self.windows.note_finished(job_ids, time.monotonic())
        if finished:
            self._sweep_soon()
        self._opened |= {endpoint for endpoint in finished if self._has_waiting(endpoint)}

    def note_results(self, results: Sequence[SettledResult]) -> None:
        # Those that no hint has named: workers on other machines send none.
        self.note_finished(result.job_id for result in results)
        now = time.monotonic()
        for _, subscription_id, error_code, duration_ms in results:
            endpoint = self.endpoint(subscription_id)
            seconds = None if duration_ms is None else duration_ms / 1000
            changed = self.windows.note_result(endpoint, now, succeeded=error_code is None, seconds=seconds)
            opened = changed and error_code is not None
            self._monitor.note_result(endpoint, subscription_id, error_code, breaker_opened=opened)
            if changed:
                closed = error_code is None
                message = Log.ENDPOINT_BREAKER_CLOSED if closed else Log.ENDPOINT_BREAKER_OPENED
                log(message, subscription_id=subscription_id, error_code=error_code)
                if closed and self._has_waiting(endpoint):
                    self._opened.add(endpoint)

    def note_gone(self, subscription_ids: Collection[int]) -> None:
        """The endpoints of these subscriptions have responded with 410."""
        for subscription_id in subscription_ids:
            self._monitor.note_gone(self.endpoint(subscription_id), subscription_id)

    def due_in(self) -> float:
        """After how many seconds parked deliveries may be admitted, or the park has to be read."""
        now = time.monotonic()
        if any(self._may_admit(endpoint, now) for endpoint in self._opened):
            return 0.0
        return max(0.0, min(self._sweep_at, self._wake_at) - now)

    def admissions(self, limit: int) -> list[Admission]:
        """What may be admitted now, at most `limit` deliveries. Rate limits count them as sent."""
        now = time.monotonic()
        if now >= self._wake_at:
            self._opened |= self._parked.keys()
        found = []
        for endpoint in self._most_idle(self._opened - self.queues.endpoints):
            if limit <= 0:
                break
            self._opened.discard(endpoint)
            if self._may_admit(endpoint, now) and (count := self._take(endpoint, limit)):
                found.append(Admission(endpoint, self._parked[endpoint], count))
                limit -= count
        self._wake_at = self._next_wake(now)
        return found

    def note_admitted(self, admission: Admission, count: int) -> None:
        if count < admission.limit:
            self._parked.pop(admission.endpoint, None)  # the park of this endpoint is empty
            self._park.discard(admission.subscription_ids)

    def _has_waiting(self, endpoint: int) -> bool:
        return endpoint in self._parked or endpoint in self.queues

    def _most_idle(self, endpoints: Iterable[int]) -> list[int]:
        """Those with the fewest open attempts first."""
        return sorted(endpoints, key=lambda endpoint: (self.windows.at(endpoint).open, endpoint))

    def _may_admit(self, endpoint: int, now: float) -> bool:
        return (
            self._has_waiting(endpoint)
            and self._slots_at.get(endpoint, 0.0) <= now
            and self.windows.has_use_for(endpoint, now)
        )

    def _take(self, endpoint: int, wanted: int) -> int:
        """How many attempts may be opened now; reserves them where the endpoint has a rate limit."""
        now = time.monotonic()
        count = min(wanted, self.windows.room(endpoint, now))
        rate = self._rate_limits.get(endpoint)
        if not count or rate is None:
            return count
        slots = take_slots(endpoint, rate, count)
        self._slots_at[endpoint] = now + slots.wait.total_seconds()
        return slots.taken

    def _next_wake(self, now: float) -> float:
        slots = (at for endpoint, at in self._slots_at.items() if endpoint in self._parked and at > now)
        probes = (at for endpoint in self._parked if (at := self.windows.probe_at(endpoint)) > now)
        return min([*slots, *probes], default=float("inf"))

    def _sweep_soon(self) -> None:
        self._has_changed = True
        self._sweep_at = min(self._sweep_at, time.monotonic() + SWEEP_SECONDS)

    def sweep(self) -> None:
        """Read now and then what other processes have changed: subscriptions, open attempts, the park."""
        now = time.monotonic()
        if now >= self._sweep_at:
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        version, health = versions()
        self._monitor.refresh(health)
        if version != self._version:
            self._endpoints.clear()
            self._rate_limits = rate_limits()
            self._slots_at = {pk: at for pk, at in self._slots_at.items() if pk in self._rate_limits}
            if self._version is not None:
                self.queues.clear()  # of another endpoint, perhaps; polling finds them
            self._version = version
        self._park.refresh()
        parked = self._park.ids
        if parked or self.windows.has_open:
            # A hint says when an attempt has ended; those whose hint was lost, or went elsewhere, are counted here.
            counts = self._by_endpoint(Job.objects.open_by_subscription())
            self.windows.set_open(counts, now - hub().lease.total_seconds())
        if version != self._routable_version or parked != self._read_park:
            self._routable, self._routable_version, self._read_park = self.routable(parked), version, set(parked)
        self._parked = {}
        for subscription_id in self._routable:
            self._parked.setdefault(self.endpoint(subscription_id), set()).add(subscription_id)
        self._opened = {*self._parked, *self.queues.endpoints}
        # An endpoint that does not respond may keep its deliveries waiting for days.
        quiet = min(2 * self._sweep_seconds, IDLE_SWEEP_SECONDS)
        is_idle = not self._opened and not self.windows.has_open
        self._sweep_seconds = IDLE_SWEEP_SECONDS if is_idle else SWEEP_SECONDS if self._has_changed else quiet
        self._sweep_at, self._has_changed = now + self._sweep_seconds, False
        self._log_parked(now)

    def _by_endpoint(self, counts: Mapping[int, int]) -> dict[int, int]:
        by_endpoint: Counter[int] = Counter()
        for subscription_id, count in counts.items():
            by_endpoint[self.endpoint(subscription_id)] += count
        return by_endpoint

    def _log_parked(self, now: float) -> None:
        """One line per minute and subscription: a line per delivery would fill the log."""
        if now < self._log_at:
            return
        self._log_at = now + LOG_SECONDS
        for subscription_id, count in self._newly_parked.items():
            log(Log.DELIVERIES_PARKED, subscription_id=subscription_id, count=count)
        self._newly_parked.clear()
