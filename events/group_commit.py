"""Stores the events of concurrent requests together: one INSERT and one commit for all of them.

A thread that finds no other at work stores its events at once. Threads that come meanwhile wait, and the first of them
stores the events of all that wait, up to the limits of one statement. No thread waits if there is only one request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from webhookhub.db.errors import kind_of

from .errors import EventConflict, InvalidEvent
from .intake import PIECE_CHARACTERS, PIECE_ROWS, NewEvent, Published
from .payloads import Document

Result = Published | InvalidEvent | EventConflict
Store = Callable[[Sequence[NewEvent]], Sequence[Result]]


class Interrupted(Exception):
    """The thread that stored the events of several requests ended before it was done."""


class _Request:
    """The events of one thread. `turn` is released when they are stored, or when the thread must store them itself."""

    def __init__(self, events: Sequence[NewEvent]) -> None:
        self.events = events
        self.characters = sum(len(event.payload.text) for event in events if isinstance(event.payload, Document))
        self.results: Sequence[Result] | None = None
        self.error: Exception | None = None
        self.turn = threading.Lock()
        self.turn.acquire()

    @property
    def is_done(self) -> bool:
        return self.results is not None or self.error is not None

    def outcome(self) -> Sequence[Result]:
        if self.error is not None:
            raise self.error
        assert self.results is not None
        return self.results


class GroupCommit:
    """`store` stores events and returns one result each, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: deque[_Request] = deque()
        self._is_busy = False

    def publish(self, events: Sequence[NewEvent]) -> Sequence[Result]:
        """Returns when the events are committed: one result each, in order. Raises what `store` raises."""
        request = _Request(events)
        with self._lock:
            self._waiting.append(request)
            must_wait = self._is_busy
            self._is_busy = True
        if must_wait:
            request.turn.acquire()
        if not request.is_done:
            self._publish_waiting()
        return request.outcome()

    def _publish_waiting(self) -> None:
        """Stores a group of waiting requests, the oldest of which is this thread's own, and ends its turn."""
        group = self._next_group()
        try:
            self._store_group(group)
        except BaseException:
            for request in group:
                if not request.is_done:
                    request.error = Interrupted()
            raise
        finally:
            with self._lock:
                following = self._waiting[0] if self._waiting else None
                self._is_busy = following is not None
            if following:
                following.turn.release()
            for request in group[1:]:
                request.turn.release()

    def _next_group(self) -> list[_Request]:
        group: list[_Request] = []
        rows = characters = 0
        with self._lock:
            while self._waiting:
                request = self._waiting[0]
                rows += len(request.events)
                characters += request.characters
                if group and (rows > PIECE_ROWS or characters > PIECE_CHARACTERS):
                    break
                group.append(self._waiting.popleft())
        return group

    def _store_group(self, group: Sequence[_Request]) -> None:
        try:
            results = self._store([event for request in group for event in request.events])
        except Exception as error:  # noqa: BLE001  # raised in the thread of each request
            if len(group) > 1 and not _concerns_all(error):
                # Nothing is stored. Only the request that caused the error fails.
                for request in group:
                    self._store_group([request])
                return
            for request in group:
                request.error = error
            return
        done = 0
        for request in group:
            request.results = results[done : done + len(request.events)]
            done += len(request.events)


def _concerns_all(error: Exception) -> bool:
    """Whether each of the requests would get this error."""
    return kind_of(error).is_temporary
