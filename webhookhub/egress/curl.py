"""Everything that leaves the hub leaves through here: one thread, many transfers, on libcurl's multi interface."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pycurl

from webhookhub.conf import HubSettings, hub

from . import errors
from .messages import Answer, Request
from .pace import Pace
from .slot import Slot

T = TypeVar("T")


class Engine(Generic[T]):
    """Sends requests, each with a tag of the caller's, and hands back tags with answers as they come in.

    Requests beyond what one receiver may have at once wait here and not in libcurl, whose clock would run for them.

    `resolve` gives names their addresses (`host:port:address,address`) in place of the name service; they are judged
    like any others. It is read anew for each request: a test can change it in between.
    """

    def __init__(self, concurrency: int, settings: HubSettings | None = None, resolve: Sequence[str] = ()) -> None:
        self.concurrency = concurrency
        self._resolve = resolve
        self._settings = settings or hub()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, concurrency)
        self._under_way: dict[Any, Slot[T]] = {}
        self._idle: list[Slot[T]] = []
        self._pace = Pace(self._settings.requests_per_host)
        self._per_origin: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Waiting[T]]] = {}
        self._refused: list[tuple[T, Answer]] = []

    @property
    def waiting(self) -> int:
        """Requests that wait for their receiver to have fewer under way."""
        return sum(len(queue) for queue in self._waiting.values())

    @property
    def in_flight(self) -> int:
        return len(self._under_way) + len(self._refused) + self.waiting

    @property
    def free(self) -> int:
        return max(0, self.concurrency - self.in_flight)

    def accepts(self, request: Request) -> bool:
        """Whether the request would be sent soon: at once, or after others that its receiver is quick with."""
        origin = request.origin
        return self._per_origin[origin] < self._pace.limit(origin) or self._pace.may_queue(origin)

    def submit(self, tag: T, request: Request) -> None:
        origin = request.origin
        if self._per_origin[origin] < self._pace.limit(origin):
            self._start(tag, request, origin)
        else:
            self._waiting.setdefault(origin, deque()).append(_Waiting(time.monotonic(), tag, request))

    def poll(self, timeout: float) -> list[tuple[T, Answer]]:
        """Move every transfer on, waiting at most `timeout` seconds for something to happen."""
        finished, self._refused = self._refused, []
        if not self._under_way:
            return finished
        self._perform()
        finished += self._collect()
        if not finished and timeout > 0:
            self._multi.select(self._patience(timeout))
            self._perform()
            finished += self._collect()
        return finished

    def withdraw(self, seconds: float) -> list[T]:
        """Take back the requests that have waited for longer than `seconds`, or would: they were not sent."""
        before = time.monotonic() - seconds
        withdrawn = []
        for origin, queue in self._waiting.items():
            if queue and queue[0].since <= before:
                self._pace.note_wait(origin)
            while queue and (queue[0].since <= before or not self._pace.may_queue(origin)):
                withdrawn.append(queue.popleft().tag)
        return withdrawn

    def close(self) -> None:
        for slot in self._under_way.values():
            self._multi.remove_handle(slot.handle)
            slot.handle.close()
        for slot in self._idle:
            slot.handle.close()
        self._under_way.clear()
        self._idle.clear()
        self._multi.close()

    def _start(self, tag: T, request: Request, origin: str) -> None:
        slot = self._idle.pop() if self._idle else Slot[T](self._settings)
        try:
            slot.load(tag, request, origin, self._resolve)
        except (pycurl.error, ValueError):
            slot.handle.close()
            self._refused.append((tag, Answer(errors.INVALID_REQUEST, 0)))
            return
        self._per_origin[origin] += 1
        self._under_way[slot.handle] = slot
        self._multi.add_handle(slot.handle)

    def _patience(self, timeout: float) -> float:
        """At most `timeout`: sooner when libcurl has something to do by itself, such as data it has read already."""
        milliseconds = self._multi.timeout()
        return timeout if milliseconds < 0 else min(timeout, milliseconds / 1000)

    def _perform(self) -> None:
        while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
            pass

    def _collect(self) -> list[tuple[T, Answer]]:
        finished = []
        while True:
            left, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                finished.append(self._finish(handle, None))
            for handle, code, _ in failed:
                finished.append(self._finish(handle, code))
            if not left:
                return finished

    def _finish(self, handle: Any, curl_code: int | None) -> tuple[T, Answer]:
        slot = self._under_way.pop(handle)
        self._multi.remove_handle(handle)
        answer = slot.answer(curl_code)
        result = slot.tag, answer
        self._pace.note(slot.origin, answer)
        self._idle.append(slot)
        self._let_next(slot.origin)
        return result

    def _let_next(self, origin: str) -> None:
        self._per_origin[origin] -= 1
        if not self._per_origin[origin]:
            del self._per_origin[origin]
        queue = self._waiting.get(origin)
        # More than one when the next cannot even be started: nothing else would come back for those behind it.
        while queue and self._per_origin[origin] < self._pace.limit(origin):
            following = queue.popleft()
            self._start(following.tag, following.request, origin)
        if queue is not None and not queue:
            del self._waiting[origin]


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    since: float
    tag: T
    request: Request


def send(request: Request, settings: HubSettings | None = None, resolve: Sequence[str] = ()) -> Answer:
    """One request, start to end: to verify or test an endpoint. Deliveries use an Engine of their own."""
    engine: Engine[None] = Engine(1, settings, resolve)
    try:
        engine.submit(None, request)
        while True:
            for _, answer in engine.poll(0.1):
                return answer
    finally:
        engine.close()
