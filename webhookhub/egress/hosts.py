"""How much of a worker a receiver may take up, by how it has answered of late.

A receiver that takes its time, or never answers, must not keep the others waiting.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from . import errors, urls
from .addresses import may_reach_text
from .dns import Lookup
from .messages import Request, Response

T = TypeVar("T")

SLOW_MILLISECONDS = 1000
# Requests at once to a receiver that is not known yet, or that has let the last one run into the time-out.
FEW = 2
MOST_REMEMBERED = 10_000
# When a request that was turned away may be offered again.
SHORTEST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 60.0

UNKNOWN, FAST, SLOW, SILENT = "unknown", "fast", "slow", "silent"


@dataclass(frozen=True, slots=True)
class Waiting(Generic[T]):
    since: float
    tag: T
    request: Request


@dataclass(slots=True, eq=False)
class Receiver(Generic[T]):
    """Scheme, host and port; what is under way there, what waits for its turn, and how it has answered."""

    host: str
    port: int
    most: int
    # Written as an address it needs no name service.
    is_address: bool
    manner: str = UNKNOWN
    under_way: int = 0
    waiting: deque[Waiting[T]] = field(default_factory=deque)
    # What the name leads to, and which look-up libcurl has been told of.
    lookup: Lookup | None = None
    told: Lookup | None = None
    # Why nothing is sent there at all.
    refusal: str | None = None
    # Requests that may be under way at once.
    limit: int = field(init=False)
    _milliseconds: int = SLOW_MILLISECONDS
    _next_turn: float = 0.0

    def __post_init__(self) -> None:
        self._behaves(self.manner)

    @property
    def may_queue(self) -> bool:
        """Whether further requests may wait in the worker for their turn: not where that would take long."""
        return self.manner in (FAST, UNKNOWN)

    def found(self, lookup: Lookup) -> None:
        """What its name leads to. Addresses are judged once for each look-up, whatever their order."""
        self.lookup = lookup
        self.refusal = None if all(map(may_reach_text, lookup.addresses)) else errors.BLOCKED_ADDRESS

    def note(self, answer: Response) -> None:
        self._milliseconds = answer.duration_ms
        if answer.duration_ms > SLOW_MILLISECONDS:
            self._behaves(SILENT if answer.status is None else SLOW)
            return
        self._next_turn = 0.0
        if self.manner != FAST:
            self._behaves(FAST)  # a quick refusal takes up nothing either

    def note_wait(self) -> None:
        """A request has waited for its turn in vain: until the receiver answers again, no other waits for it."""
        self._behaves(SLOW if self.manner in (FAST, SLOW) else SILENT)

    def _behaves(self, manner: str) -> None:
        self.manner = manner
        self.limit = self.most if manner in (FAST, SLOW) else min(FEW, self.most)

    def wait_seconds(self) -> float:
        """How long a request that is turned away now should stay away: until after those turned away before it.

        Of ten thousand that wait for a receiver that hardly answers, most would be offered and turned away in vain
        again and again; the bound sees to it that they come soon after it has recovered.
        """
        now = time.monotonic()
        following = self._next_turn + self._milliseconds / 1000 / self.limit
        self._next_turn = min(max(following, now + SHORTEST_WAIT_SECONDS), now + LONGEST_WAIT_SECONDS)
        return self._next_turn - now


class Receivers(Generic[T]):
    """All receivers that requests go to or have gone to of late, found by URL."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_url: dict[str, Receiver[T]] = {}
        self._by_origin: dict[str, Receiver[T]] = {}

    def at(self, url: str) -> Receiver[T]:
        return self._by_url.get(url) or self._remember(url)

    def _remember(self, url: str) -> Receiver[T]:
        receiver = self._found(url) if _may_be_sent(url) else self._refused()
        _bound(self._by_url)
        self._by_url[url] = receiver
        return receiver

    def _found(self, url: str) -> Receiver[T]:
        parts = urlsplit(url)
        receiver = self._by_origin.get(parts.netloc)
        if receiver is None:
            host = parts.hostname or ""
            receiver = Receiver(host, parts.port or 443, self._most, _is_address(host))
            _bound(self._by_origin)
            self._by_origin[parts.netloc] = receiver
        return receiver

    def _refused(self) -> Receiver[T]:
        return Receiver("", 443, self._most, is_address=True, refusal=errors.INVALID_REQUEST)


def _bound(receivers: dict[str, Receiver[T]]) -> None:
    if len(receivers) >= MOST_REMEMBERED:
        idle = (key for key, receiver in receivers.items() if not receiver.under_way and not receiver.waiting)
        if (oldest := next(idle, None)) is not None:
            del receivers[oldest]


def _may_be_sent(url: str) -> bool:
    """By the rules it was stored by: the row may have come about in another way, and the rules have changed since."""
    try:
        urls.normalise(url)
    except urls.ForbiddenAddress:
        return True  # judged when it is connected to, which has a code of its own
    except urls.UnacceptableURL:
        return False
    return True


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
