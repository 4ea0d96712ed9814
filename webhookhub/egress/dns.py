"""What names lead to, looked up beside the transfers.

libcurl would look them up itself, in about twenty threads that stay taken for as long as the name service hangs:
one name that hangs there would keep every other waiting. Here a name takes up one thread however many requests wait
for it, and nobody has to wait for that thread to end.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

FRESH_SECONDS = 30.0
# Look-ups at once: as many names may hang before another has to wait for its turn.
MOST_AT_ONCE = 64
MOST_REMEMBERED = 10_000

Resolver = Callable[[str], Sequence[str]]


class Lookup:
    """What one look-up has found: no addresses until it is `finished`, and none if it has failed."""

    __slots__ = ("addresses", "finished", "host", "until")

    def __init__(self, host: str) -> None:
        self.host = host
        self.addresses: Sequence[str] = ()
        self.finished = threading.Event()
        # On the monotonic clock; one that is not finished yet is as good as any that could be started now.
        self.until = inf


def ask_the_system(host: str) -> Sequence[str]:
    if host.endswith(".localhost"):
        return ("127.0.0.1", "::1")  # by definition (RFC 6761), whatever the name service says
    # In bytes: as text it would be judged by an older IDNA than the one it was stored by.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


class Names:
    """Looks names up, each once at a time, and remembers them for a while. May be shared by threads."""

    def __init__(self, resolver: Resolver = ask_the_system, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._resolver = resolver
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._lookups: dict[str, Lookup] = {}
        self._queue: deque[Lookup] = deque()
        self._threads = 0

    def lookup(self, host: str) -> Lookup:
        """What is known of a name, or a look-up that has begun."""
        with self._lock:
            known = self._lookups.pop(host, None)
            if known is None or known.until <= time.monotonic():
                known = Lookup(host)
                self._queue.append(known)
                if self._threads < MOST_AT_ONCE:
                    self._threads += 1
                    # Daemons: a process does not wait for a hanging name service to leave.
                    threading.Thread(target=self._work, name=f"lookup {host}", daemon=True).start()
            self._lookups[host] = known
            if len(self._lookups) > MOST_REMEMBERED:
                del self._lookups[next(iter(self._lookups))]
            return known

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                lookup = self._queue.popleft()
            try:
                lookup.addresses = self._resolver(lookup.host)
            except (OSError, UnicodeError):
                pass
            finally:
                # What has failed is asked anew by the next request.
                lookup.until = time.monotonic() + self._fresh_seconds if lookup.addresses else 0.0
                lookup.finished.set()


# One for the process: the threads of a web server that verify endpoints share it.
SHARED = Names()
