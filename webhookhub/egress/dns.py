"""Resolves host names in threads of its own.

libcurl resolves names in about twenty threads, which a few hanging names can block for all hosts. Here a name uses one
thread, however many requests wait for it. Names whose last lookup was late or failed have a pool of their own, so names
that hang again and again do not delay the others. While a lookup is late, the last good answer serves.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from webhookhub.logs import Log, log

# How long an answer is used without another lookup. From half of this age on, a request starts one in the background.
FRESH_SECONDS = 30.0
# A lookup that takes longer is late: an older answer is used, or the request waits outside of the worker.
LATE_SECONDS = 1.0
# How long a failed lookup is not repeated; longer than its requests are deferred.
FAILED_SECONDS = 10.0
# While no name gets an answer, the hub's own resolver is assumed to fail; after this time, the names are. Otherwise the
# deliveries of a hub whose only name does not resolve would never end.
RESOLVER_FAILURE_SECONDS = 3600.0
# Lookups at once; and of names whose last lookup was late or failed.
MAX_THREADS = 192
MAX_LATE_THREADS = 64
MAX_CACHED = 10_000
# Failed lookups are logged at most this often.
LOG_SECONDS = 60.0

# The errors by which a name service says that there is no address. All others mean that it could not find out.
NO_ADDRESS = {
    getattr(socket, name)
    for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY", "EAI_FAIL")
    if hasattr(socket, name)
}


class Answer(NamedTuple):
    """Addresses, and the monotonic time at which they were found."""

    addresses: Sequence[str]
    at: float


class Lookup:
    """One lookup of a name. `answer` is None until it has `finished`, and if it failed."""

    __slots__ = (
        "answer",
        "denied",
        "finished",
        "finished_at",
        "host",
        "last_good",
        "queued_at",
        "started_at",
        "suspect",
    )

    def __init__(self, host: str, last_good: Answer | None = None, *, suspect: bool = False) -> None:
        self.host = host
        self.last_good = last_good
        # The lookup before this one was late or failed.
        self.suspect = suspect
        self.queued_at = time.monotonic()
        self.started_at = inf
        self.finished_at = inf
        self.finished = threading.Event()
        self.answer: Answer | None = None
        # The name service has answered that there is no address.
        self.denied = False

    def usable(self, now: float, fresh_seconds: float, max_age: float) -> Answer | None:
        """The answer of this lookup, or the last good one if that is fresh or this lookup is late or has failed."""
        if self.answer is not None:
            return self.answer
        if self.last_good is None or self.denied:
            return None
        age = now - self.last_good.at
        late = self.suspect or self.finished.is_set() or now - self.queued_at >= LATE_SECONDS
        return self.last_good if age < fresh_seconds or (late and age < max_age) else None

    def failed(self, now: float, timeout: float) -> bool:
        """Whether it found nothing, or has been running for `timeout` seconds. Waiting for a thread does not count."""
        if self.finished.is_set():
            return self.answer is None
        return now - self.started_at >= timeout

    @property
    def was_late(self) -> bool:
        return self.finished_at - self.started_at >= LATE_SECONDS


def resolve(host: str) -> Sequence[str]:
    if host.endswith(".localhost"):
        return ("127.0.0.1", "::1")  # by definition (RFC 6761)
    # As bytes: Python would encode text with an older IDNA than the one used for storing URLs.
    results = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


class Resolver:
    """Resolves each name once at a time and caches the result. Thread-safe."""

    def __init__(self, resolve: Callable[[str], Sequence[str]] = resolve, fresh_seconds: float = FRESH_SECONDS) -> None:
        self.fresh_seconds = fresh_seconds
        self._resolve = resolve
        self._lock = threading.Lock()
        self._lookups: dict[str, Lookup] = {}
        self._threads = _Threads(MAX_THREADS, self._run, self._lock)
        self._late_threads = _Threads(MAX_LATE_THREADS, self._run, self._lock)
        self._answered_at = -inf
        # The start of the first failed lookup since the last answer.
        self._failing_since = inf
        self._log_at = -inf

    def lookup(self, host: str) -> Lookup:
        """The cached lookup, or a new one that has been started."""
        with self._lock:
            lookup = self._lookups.pop(host, None)
            if lookup is None:
                lookup = self._start(Lookup(host))
            elif lookup.finished.is_set() and self._is_outdated(lookup):
                suspect = lookup.was_late or (lookup.answer is None and not lookup.denied)
                last_good = None if lookup.denied else lookup.answer or lookup.last_good
                lookup = self._start(Lookup(host, last_good, suspect=suspect))
            self._lookups[host] = lookup
            if len(self._lookups) > MAX_CACHED:
                del self._lookups[next(iter(self._lookups))]
            return lookup

    def answers_others(self, lookup: Lookup) -> bool:
        """Whether a failed lookup is due to its name, and not to the hub's own resolver."""
        if self._answered_at >= lookup.started_at:
            return True
        return time.monotonic() - min(self._failing_since, lookup.started_at) >= RESOLVER_FAILURE_SECONDS

    def _is_outdated(self, lookup: Lookup) -> bool:
        now = time.monotonic()
        if lookup.answer is not None:
            return now - lookup.answer.at >= self.fresh_seconds / 2
        # A late denial is kept, too: the request that asked for it is waiting elsewhere.
        return (lookup.denied and not lookup.was_late) or now - lookup.finished_at >= FAILED_SECONDS

    def _start(self, lookup: Lookup) -> Lookup:
        (self._late_threads if lookup.suspect else self._threads).add(lookup)
        return lookup

    def _run(self, lookup: Lookup) -> None:
        lookup.started_at = time.monotonic()
        try:
            addresses = self._resolve(lookup.host)
        except (OSError, UnicodeError) as error:
            lookup.denied = not isinstance(error, OSError) or (
                isinstance(error, socket.gaierror) and error.errno in NO_ADDRESS
            )
            if not lookup.denied:
                self._log(lookup.host, str(error))
        else:
            lookup.denied = not addresses
            lookup.answer = Answer(addresses, time.monotonic()) if addresses else None
        finally:
            lookup.finished_at = time.monotonic()
            if lookup.answer is not None or lookup.denied:
                self._answered_at, self._failing_since = lookup.finished_at, inf
            else:
                self._failing_since = min(self._failing_since, lookup.started_at)
            lookup.finished.set()

    def _log(self, host: str, reason: str) -> None:
        now = time.monotonic()
        with self._lock:
            if now < self._log_at:
                return
            self._log_at = now + LOG_SECONDS
        log(Log.DNS_LOOKUP_FAILED, host=host, reason=reason)


class _Threads:
    """A bounded number of threads, which end when nothing is left to do. `add` is called with the lock held."""

    def __init__(self, limit: int, work: Callable[[Lookup], None], lock: threading.Lock) -> None:
        self._limit = limit
        self._work = work
        self._lock = lock
        self._queue: deque[Lookup] = deque()
        self._count = 0

    def add(self, lookup: Lookup) -> None:
        self._queue.append(lookup)
        if self._count < self._limit:
            self._count += 1
            # A daemon: the process does not wait for a hanging name service at exit.
            threading.Thread(target=self._run, name=f"lookup {lookup.host}", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._count -= 1
                    return
                lookup = self._queue.popleft()
            self._work(lookup)


# One per process: the threads of a web server that verify endpoints share it.
SHARED = Resolver()
