"""Resolves host names in threads of its own.

libcurl resolves names in about twenty threads, which one hanging name service can block for all hosts. Here a name uses
one thread, however many requests wait for it, and a request stops waiting at its own timeout.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

FRESH_SECONDS = 30.0
# Lookups at once: as many names may hang before another has to wait.
MAX_THREADS = 64
MAX_CACHED = 10_000


class Lookup:
    """The result of one lookup: no addresses until it is `finished`, and none if it failed."""

    __slots__ = ("addresses", "finished", "host", "until")

    def __init__(self, host: str) -> None:
        self.host = host
        self.addresses: Sequence[str] = ()
        self.finished = threading.Event()
        # Monotonic time until which the result is fresh; an unfinished lookup does not expire.
        self.until = inf


def resolve(host: str) -> Sequence[str]:
    if host.endswith(".localhost"):
        return ("127.0.0.1", "::1")  # by definition (RFC 6761)
    # As bytes: Python would encode text with an older IDNA than the one used for storing URLs.
    results = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


class Resolver:
    """Resolves each name once at a time and caches the result. Thread-safe."""

    def __init__(self, resolve: Callable[[str], Sequence[str]] = resolve, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._resolve = resolve
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._lookups: dict[str, Lookup] = {}
        self._queue: deque[Lookup] = deque()
        self._threads = 0

    def lookup(self, host: str) -> Lookup:
        """The cached lookup, or a new one that has been started."""
        with self._lock:
            lookup = self._lookups.pop(host, None)
            if lookup is None or lookup.until <= time.monotonic():
                lookup = Lookup(host)
                self._queue.append(lookup)
                if self._threads < MAX_THREADS:
                    self._threads += 1
                    # A daemon: the process does not wait for a hanging name service at exit.
                    threading.Thread(target=self._work, name=f"lookup {host}", daemon=True).start()
            self._lookups[host] = lookup
            if len(self._lookups) > MAX_CACHED:
                del self._lookups[next(iter(self._lookups))]
            return lookup

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                lookup = self._queue.popleft()
            try:
                lookup.addresses = self._resolve(lookup.host)
            except (OSError, UnicodeError):
                pass
            finally:
                # A failed lookup is repeated by the next request.
                lookup.until = time.monotonic() + self._fresh_seconds if lookup.addresses else 0.0
                lookup.finished.set()


# One per process: the threads of a web server that verify endpoints share it.
SHARED = Resolver()
