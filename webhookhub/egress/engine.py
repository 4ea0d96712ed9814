"""Everything that leaves the hub leaves through here: one thread, many transfers, on libcurl's multi interface."""

from __future__ import annotations

import time
from math import ceil
from typing import Any, Generic, NamedTuple, TypeVar

import pycurl

from webhookhub.conf import HubSettings, hub

from . import dns, errors
from .dns import Lookup, Names
from .hosts import FAST, UNKNOWN, Receiver, Receivers, Waiting
from .messages import Request, Response
from .transfer import Slot
from .watchdog import Watchdog

T = TypeVar("T")

# The part of a worker that receivers may take up together as long as they are not known to be quick.
CAREFUL_SHARE = 0.75
# Transfers that nobody has looked after for so long are spared: the answer may have been there for a while.
LONG_SILENCE_SECONDS = 1.0
# How often a look-up that others than libcurl see to is looked at.
LOOKUP_SECONDS = 0.005


class Engine(Generic[T]):
    """Sends requests, each with a tag of the caller's, and hands back tags with answers as they come in.

    Requests beyond what one receiver may have at once wait here and not in libcurl, whose clock would run for them.
    """

    def __init__(self, concurrency: int, settings: HubSettings | None = None, resolver: Names | None = None) -> None:
        self.concurrency = concurrency
        self._names = resolver or dns.SHARED
        self._settings = settings or hub()
        self._watchdog = Watchdog()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, concurrency)
        self._under_way: dict[Any, Slot[T]] = {}
        self._idle: list[Slot[T]] = []
        self._receivers: Receivers[T] = Receivers(self._settings.requests_per_host)
        self._crowded: dict[Receiver[T], None] = {}
        self._unresolved: list[_Unresolved[T]] = []
        self._ended: list[tuple[T, Response]] = []
        self._waiting = 0
        self._careful = 0
        self._most_careful = ceil(concurrency * CAREFUL_SHARE)
        self._tended_at = time.monotonic()

    @property
    def waiting(self) -> int:
        """Requests that wait for their receiver to have fewer under way."""
        return self._waiting

    @property
    def in_flight(self) -> int:
        return len(self._under_way) + len(self._unresolved) + len(self._ended) + self._waiting

    @property
    def free(self) -> int:
        return max(0, self.concurrency - self.in_flight)

    def accepts(self, url: str) -> bool:
        """Whether a request would be sent soon: at once, or after others that its receiver is quick with."""
        receiver = self._receivers.at(url)
        return self._has_room(receiver) or receiver.may_queue

    def wait_seconds(self, url: str) -> float:
        """How long a request that is not accepted, or was withdrawn, should stay away."""
        return self._receivers.at(url).wait_seconds()

    def submit(self, tag: T, request: Request) -> None:
        receiver = self._receivers.at(request.url)
        if self._has_room(receiver):
            self._start(tag, request, receiver)
        else:
            receiver.waiting.append(Waiting(time.monotonic(), tag, request))
            self._waiting += 1
            self._crowded[receiver] = None

    def poll(self, timeout: float) -> list[tuple[T, Response]]:
        """Move every transfer on, waiting at most `timeout` seconds for something to happen."""
        if self._unresolved:
            self._go_on_resolved()
        self._spare_the_neglected()
        finished = self._move() if self._under_way else []
        if self._ended:
            finished += self._ended
            self._ended = []
        if finished or timeout <= 0 or not self.in_flight:
            return finished
        self._wait(timeout)
        return self.poll(0)

    def withdraw(self, seconds: float) -> list[T]:
        """Take back the requests that have waited for longer than `seconds`, or would: they were not sent."""
        before = time.monotonic() - seconds
        withdrawn = []
        for receiver in list(self._crowded):
            queue = receiver.waiting
            if queue and queue[0].since <= before:
                receiver.note_wait()
            while queue and (queue[0].since <= before or not receiver.may_queue):
                withdrawn.append(queue.popleft().tag)
                self._waiting -= 1
            if not queue:
                del self._crowded[receiver]
        return withdrawn

    def close(self) -> None:
        self._watchdog.turn += 1  # libcurl takes its leave of connections, and may be kept from it
        for slot in self._under_way.values():
            self._multi.remove_handle(slot.handle)
            slot.handle.close()
        for slot in self._idle:
            slot.handle.close()
        self._under_way.clear()
        self._idle.clear()
        self._multi.close()
        self._watchdog.close()

    def _has_room(self, receiver: Receiver[T]) -> bool:
        if receiver.under_way >= receiver.limit:
            return False
        if receiver.manner == FAST or self._careful < self._most_careful:
            return True
        return receiver.manner == UNKNOWN and not receiver.under_way  # how else would it become known?

    def _start(self, tag: T, request: Request, receiver: Receiver[T]) -> None:
        receiver.under_way += 1
        now = time.monotonic()
        if not receiver.is_address and (receiver.lookup is None or receiver.lookup.until <= now):
            lookup = self._names.lookup(receiver.host)
            if not lookup.addresses:
                self._unresolved.append(_Unresolved(lookup, now, tag, request, receiver))
                return
            receiver.found(lookup)
        self._begin(tag, request, receiver, now)

    def _begin(self, tag: T, request: Request, receiver: Receiver[T], since: float) -> None:
        if receiver.refusal is not None:
            self._give_up(tag, receiver, since, receiver.refusal)
            return
        slot = self._idle.pop() if self._idle else Slot[T](self._settings, self._watchdog)
        try:
            slot.load(tag, request, receiver, since)
        except (pycurl.error, ValueError):
            slot.handle.close()
            receiver.under_way -= 1
            self._ended.append((tag, Response(errors.INVALID_REQUEST, 0)))
            return
        if not self._under_way:
            self._tended_at = since
        slot.careful = receiver.manner != FAST
        self._careful += slot.careful
        self._under_way[slot.handle] = slot
        self._multi.add_handle(slot.handle)

    def _go_on_resolved(self) -> None:
        now = time.monotonic()
        patience = self._settings.connect_timeout.total_seconds()
        pending, self._unresolved = self._unresolved, []
        for item in pending:
            if item.lookup.addresses:
                if item.receiver.lookup is not item.lookup:
                    item.receiver.found(item.lookup)
                self._begin(item.tag, item.request, item.receiver, item.since)
            elif item.lookup.finished.is_set() or now - item.since >= patience:
                self._give_up(item.tag, item.receiver, item.since, errors.DNS_ERROR)
            else:
                self._unresolved.append(item)
                continue
            self._let_next(item.receiver)

    def _give_up(self, tag: T, receiver: Receiver[T], since: float, code: str) -> None:
        """Nothing has been sent."""
        answer = Response(code, int((time.monotonic() - since) * 1000))
        receiver.note(answer)
        receiver.under_way -= 1
        self._ended.append((tag, answer))

    def _spare_the_neglected(self) -> None:
        now = time.monotonic()
        if now - self._tended_at > LONG_SILENCE_SECONDS:
            for slot in self._under_way.values():
                slot.spare()
        self._tended_at = now

    def _wait(self, timeout: float) -> None:
        if not self._under_way:
            # Names are being looked up; or only such requests are left as wait for their turn, which may not come.
            if self._unresolved:
                self._unresolved[0].lookup.finished.wait(min(timeout, LOOKUP_SECONDS))
            return
        # Sooner when libcurl has something to do by itself, such as data it has read already.
        milliseconds = self._multi.timeout()
        patience = timeout if milliseconds < 0 else min(timeout, milliseconds / 1000)
        self._multi.select(min(patience, LOOKUP_SECONDS) if self._unresolved else patience)
        self._tended_at = time.monotonic()

    def _move(self) -> list[tuple[T, Response]]:
        self._watchdog.turn += 1
        while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
            pass
        finished = []
        while True:
            left, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                finished.append(self._finish(handle, None))
            for handle, code, _ in failed:
                finished.append(self._finish(handle, code))
            if not left:
                self._watchdog.turn += 1
                return finished

    def _finish(self, handle: Any, curl_code: int | None) -> tuple[T, Response]:
        slot = self._under_way.pop(handle)
        self._multi.remove_handle(handle)
        answer = slot.answer(curl_code)
        result = slot.tag, answer
        receiver = slot.receiver
        if slot.told is not None:
            receiver.told = slot.told
        receiver.note(answer)
        self._careful -= slot.careful
        self._idle.append(slot)
        receiver.under_way -= 1
        if receiver.waiting:
            self._let_next(receiver)
        return result

    def _let_next(self, receiver: Receiver[T]) -> None:
        # More than one when the next cannot even be started: nothing else would come back for those behind it.
        while receiver.waiting and self._has_room(receiver):
            following = receiver.waiting.popleft()
            self._waiting -= 1
            self._start(following.tag, following.request, receiver)
        if not receiver.waiting:
            self._crowded.pop(receiver, None)


class _Unresolved(NamedTuple, Generic[T]):
    lookup: Lookup
    since: float
    tag: T
    request: Request
    receiver: Receiver[T]


def send(request: Request, settings: HubSettings | None = None, resolver: Names | None = None) -> Response:
    """One request, start to end: to verify or test an endpoint. Deliveries use an Engine of their own."""
    engine: Engine[None] = Engine(1, settings, resolver)
    try:
        engine.submit(None, request)
        while True:
            for _, answer in engine.poll(0.1):
                return answer
    finally:
        engine.close()
