"""Hints: ids that a step was given by notifications. What no hint has named, polling finds."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

# With more hints than this a step is behind, and polling takes the longest waiting rows first.
MAX_HINTS = 1000
MAX_ID = 2**63 - 1
# Notifications with more ids than this are bulk: ids that come one by one overtake them.
FEW = 20


class Flag:
    """Whether a step must poll at its next turn."""

    def __init__(self) -> None:
        self._is_set = True

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def take(self) -> bool:
        """Whether it was set; clears it."""
        was_set, self._is_set = self._is_set, False
        return was_set


class Hints:
    """Distinct ids, each in the order of its arrival. Those that come one by one are kept apart from bulk.

    When there are too many, they are dropped and the step polls instead.
    """

    def __init__(self, poll_soon: Flag) -> None:
        self._few: dict[int, None] = {}
        self._bulk: dict[int, None] = {}
        self._poll_soon = poll_soon
        # When ids last came one by one.
        self.few_at = -math.inf

    def __len__(self) -> int:
        return len(self._few) + len(self._bulk)

    @property
    def has_few(self) -> bool:
        return bool(self._few)

    def add(self, ids: Sequence[int]) -> None:
        is_few = 0 < len(ids) <= FEW
        if is_few:
            self.few_at = time.monotonic()
        queue = self._few if is_few else self._bulk
        if not ids or len(queue) + len(ids) > MAX_HINTS:
            if ids:
                queue.clear()
            self._poll_soon.set()
            return
        # Any local user can send a hint: only its numbers are used, and every write keeps its guards.
        queue.update({pk: None for pk in ids if type(pk) is int and 0 < pk <= MAX_ID})

    def take_few(self, limit: int) -> list[int]:
        """Removes and returns the first ids that came one by one, `limit` at most."""
        return _take(self._few, limit)

    def take_bulk(self, limit: int) -> list[int]:
        return _take(self._bulk, limit)

    def take(self, limit: int) -> list[int]:
        """Removes and returns the first ids of both kinds, `limit` at most."""
        taken = _take(self._few, limit)
        return list(dict.fromkeys([*taken, *_take(self._bulk, limit - len(taken))]))


def _take(queue: dict[int, None], limit: int) -> list[int]:
    taken = list(queue)[: max(0, limit)]
    for pk in taken:
        del queue[pk]
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
