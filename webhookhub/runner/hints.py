"""Hints: ids that a step was given by notifications. And polling, which finds everything that no hint has named."""

from __future__ import annotations

import time
from collections.abc import Sequence

from webhookhub.conf import hub

# With more hints than this a step is behind, and polling takes the longest waiting rows first.
MAX_HINTS = 1000
MAX_ID = 2**63 - 1


class Polling:
    """When a step polls: at every turn, but only at its interval while hints arrive."""

    def __init__(self) -> None:
        self._polled_at = self._hinted_at = float("-inf")
        self.soon = True

    def due(self) -> bool:
        return time.monotonic() >= self.due_at()

    def due_at(self, earliest: float = float("-inf")) -> float:
        """The time of the next poll, but not before `earliest`."""
        if self.soon:
            return earliest
        return max(earliest, min(self._polled_at, self._hinted_at) + hub().poll_interval.total_seconds())

    def hinted(self) -> None:
        """This turn had hints."""
        self._hinted_at = time.monotonic()

    def polled(self, *, found: bool) -> None:
        """After a poll. One that has found something is followed by another."""
        self._polled_at = time.monotonic()
        self.soon = found


class Hints:
    """Distinct ids in order of arrival. When there are too many, all are dropped and the step polls instead."""

    def __init__(self, polling: Polling) -> None:
        self._ids: dict[int, None] = {}
        self._polling = polling

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Sequence[int]) -> None:
        if not ids or len(self._ids) + len(ids) > MAX_HINTS:
            self._ids.clear()
            self._polling.soon = True
            return
        # Any local user can send a hint: only its numbers are used, and every write keeps its guards.
        self._ids.update({pk: None for pk in ids if type(pk) is int and 0 < pk <= MAX_ID})

    def take(self, limit: int) -> list[int]:
        """Removes and returns the first `limit` ids."""
        taken = list(self._ids)[:limit]
        for pk in taken:
            del self._ids[pk]
        if taken:
            self._polling.hinted()
        return taken


class Held:
    """Ids whose last write is deferred, so that many rows share one transaction."""

    # How long an id is held at most.
    SECONDS = 0.5

    def __init__(self) -> None:
        self._ids: dict[int, None] = {}
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Sequence[int]) -> None:
        if not self._ids:
            self._since = time.monotonic()
        self._ids.update(dict.fromkeys(ids))

    def due(self, batch_size: int) -> bool:
        return len(self._ids) >= batch_size or (bool(self._ids) and not self.idle_for())

    def idle_for(self) -> float:
        """The seconds until the oldest id is due."""
        return max(0.0, self._since + self.SECONDS - time.monotonic()) if self._ids else 0.0

    def first(self, limit: int) -> list[int]:
        return list(self._ids)[:limit]

    def remove(self, ids: Sequence[int]) -> None:
        """After the write: if the database is lost, the ids are kept until it is back."""
        for pk in ids:
            del self._ids[pk]
