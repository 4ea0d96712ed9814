"""How many of a worker's slots a host may use, depending on how fast it has responded recently.

A host that is slow or does not respond must not delay the others.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from math import inf
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from . import error_codes, urls
from .addresses import may_reach_text
from .dns import Answer
from .messages import Request, Response

T = TypeVar("T")

SLOW_MILLISECONDS = 1000
# Concurrent requests to a host that is not known yet, or whose last request timed out.
FEW = 2
MAX_CACHED = 10_000
# How long no connection is reused after one was lost: some servers close connections without announcing it.
NO_REUSE_SECONDS = 5.0
# The time doubles with each further loss, up to this.
MAX_NO_REUSE_SECONDS = 3600.0
# When a deferred request may be tried again.
MIN_DEFER_SECONDS = 2.0
MAX_DEFER_SECONDS = 60.0

# The pause after a failure of the forward proxy; it doubles with each further one.
MIN_PROXY_PAUSE_SECONDS = 1.0
MAX_PROXY_PAUSE_SECONDS = 60.0

UNKNOWN, FAST, SLOW, SILENT = "unknown", "fast", "slow", "silent"


@dataclass(frozen=True, slots=True)
class QueuedRequest(Generic[T]):
    since: float
    tag: T
    request: Request


@dataclass(slots=True)
class Backoff:
    """The pause after failures of the forward proxy."""

    # The start of the first request that failed since the last success.
    since: float = inf
    _until: float = 0.0
    _failures: int = 0
    _counted_at: float = 0.0

    def wait(self, now: float) -> float:
        return max(0.0, self._until - now)

    def note_start(self, now: float, seconds: float) -> None:
        """After a failure, other requests wait up to `seconds` for the result of this one."""
        if self._failures:
            self._until = now + seconds

    def note_failure(self, started: float, now: float) -> None:
        self.since = min(self.since, started)
        if started >= self._counted_at:  # several requests may fail at once
            self._failures += 1
            self._counted_at = now
        pause = MIN_PROXY_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 10)
        self._until = now + min(pause, MAX_PROXY_PAUSE_SECONDS)

    def release(self) -> None:
        """End the pause; the next request is not the first after a success."""
        self._until, self._failures = 0.0, 0

    def clear(self) -> None:
        self.release()
        self.since = inf


@dataclass(slots=True, eq=False)
class Host(Generic[T]):
    """A host name and port, with its requests in flight, its queue and its speed."""

    name: str
    port: int
    max_requests: int
    # An IP address needs no name service.
    is_address: bool
    speed: str = UNKNOWN
    in_flight: int = 0
    queue: deque[QueuedRequest[T]] = field(default_factory=deque)
    # The addresses to use, and those that libcurl has.
    answer: Answer | None = None
    libcurl_answer: Answer | None = None
    # The error code, when nothing may be sent to this host.
    refusal: str | None = None
    # The address that the forward proxy is asked for, and the pause after it did not connect.
    tunnel_address: str = ""
    proxy_backoff: Backoff = field(default_factory=Backoff)
    # The monotonic time before which every request gets a new connection.
    reuse_at: float = 0.0
    # The connection of the last request was lost, for a reason that the next one may find.
    lost: bool = False
    # Requests that may be in flight at once.
    limit: int = field(init=False)
    _milliseconds: int = SLOW_MILLISECONDS
    _no_reuse_seconds: float = 0.0
    _next_turn: float = 0.0

    def __post_init__(self) -> None:
        self._set_speed(self.speed)

    @property
    def may_queue(self) -> bool:
        """Whether requests may wait in the worker for their turn: only where that is short."""
        return self.speed in (FAST, UNKNOWN)

    def use(self, answer: Answer) -> None:
        """Use these addresses; all of them must be allowed."""
        if answer is not self.answer:
            self.answer = answer
            self.refusal = None if all(map(may_reach_text, answer.addresses)) else error_codes.BLOCKED_ADDRESS

    @property
    def addresses(self) -> Sequence[str]:
        if self.is_address:
            return (self.name,)
        return self.answer.addresses if self.answer is not None else ()

    def address_for_proxy(self) -> str:
        """The same one while the name has it, because connections to another address are not reused."""
        if self.tunnel_address not in self.addresses:
            self.tunnel_address = self.addresses[0]
        return self.tunnel_address

    def use_next_address(self) -> None:
        """For the next request through the proxy: it may reach one address and not the other."""
        if self.tunnel_address in self.addresses:
            following = list(self.addresses).index(self.tunnel_address) + 1
            self.tunnel_address = self.addresses[following % len(self.addresses)]

    def note_response(self, response: Response) -> None:
        self._milliseconds = response.duration_ms
        self.lost = response.error_code in (error_codes.CONNECTION_LOST, error_codes.CLIENT_CERTIFICATE_REQUIRED)
        if response.error_code == error_codes.CONNECTION_LOST:
            self._note_loss(time.monotonic())
        if response.duration_ms > SLOW_MILLISECONDS:
            self._set_speed(SILENT if response.status is None else SLOW)
            return
        self._next_turn = 0.0
        if self.speed != FAST:
            self._set_speed(FAST)  # a fast refusal uses no slot either

    def _note_loss(self, now: float) -> None:
        if now >= self.reuse_at:  # several requests may be lost at once
            self._no_reuse_seconds = min(max(2 * self._no_reuse_seconds, NO_REUSE_SECONDS), MAX_NO_REUSE_SECONDS)
            self.reuse_at = now + self._no_reuse_seconds

    def note_unresolved(self) -> None:
        """The name could not be resolved in time: few requests, and no queue, until the next fast response."""
        self._set_speed(SILENT)

    def note_queue_timeout(self) -> None:
        """A request has waited too long in the queue: until the next fast response, none is queued."""
        self._set_speed(SLOW if self.speed in (FAST, SLOW) else SILENT)

    def _set_speed(self, speed: str) -> None:
        self.speed = speed
        self.limit = self.max_requests if speed in (FAST, SLOW) else min(FEW, self.max_requests)

    def defer_seconds(self) -> float:
        """How long to defer a request: until after those deferred before it.

        Otherwise thousands of requests to a slow host would be leased and deferred again and again. The upper bound
        makes them return soon after the host has recovered.
        """
        now = time.monotonic()
        following = self._next_turn + self._milliseconds / 1000 / self.limit
        seconds = min(max(following - now, MIN_DEFER_SECONDS), MAX_DEFER_SECONDS)
        self._next_turn = now + seconds
        return seconds


class Hosts(Generic[T]):
    """The hosts of current and recent requests, by URL."""

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._by_url: dict[str, Host[T]] = {}
        self._by_netloc: dict[str, Host[T]] = {}

    def at(self, url: str) -> Host[T]:
        host = self._by_url.get(url)
        if host is None:
            host = self._host(url) if _may_be_sent(url) else self._refused()
            _make_room(self._by_url)
            self._by_url[url] = host
        return host

    def _host(self, url: str) -> Host[T]:
        parts = urlsplit(url)
        host = self._by_netloc.get(parts.netloc)
        if host is None:
            name = parts.hostname or ""
            host = Host(name, parts.port or 443, self._max_requests, _is_address(name))
            _make_room(self._by_netloc)
            self._by_netloc[parts.netloc] = host
        return host

    def _refused(self) -> Host[T]:
        return Host("", 443, self._max_requests, is_address=True, refusal=error_codes.INVALID_REQUEST)


def _make_room(hosts: dict[str, Host[T]]) -> None:
    if len(hosts) >= MAX_CACHED:
        idle = (key for key, host in hosts.items() if not host.in_flight and not host.queue)
        if (oldest := next(idle, None)) is not None:
            del hosts[oldest]


def _may_be_sent(url: str) -> bool:
    """Checked again before sending: the row may have been written by SQL, or under other rules."""
    try:
        urls.normalise(url)
    except urls.ForbiddenAddress:
        return True  # refused when connecting, with an error code of its own
    except urls.UnacceptableURL:
        return False
    return True


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
