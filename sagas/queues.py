"""First attempts that are due and wait in an orchestrator's memory until the window of their endpoint opens.

To park and admit a delivery takes two more updates: too much for one that waits a moment only. The database shows these
deliveries as due, so nothing is lost with the process, and another orchestrator may dispatch them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

# Polls read these deliveries again and again.
MAX_QUEUED = 1000
# An endpoint that takes no more than this in a second has its deliveries parked.
LONGEST_SECONDS = 2.0


class Queued(NamedTuple):
    id: int
    subscription_id: int
    since: float


class Queues:
    def __init__(self) -> None:
        self._by_endpoint: dict[int, deque[Queued]] = {}
        self.ids: set[int] = set()

    def __contains__(self, endpoint: int) -> bool:
        return endpoint in self._by_endpoint

    @property
    def endpoints(self) -> set[int]:
        return set(self._by_endpoint)

    def length(self, endpoint: int) -> int:
        return len(self._by_endpoint.get(endpoint, ()))

    def add(self, endpoint: int, deliveries: Sequence[tuple[int, int]], limit: float) -> int:
        """Add the first of these (id, subscription id), as long as no more than `limit` of the endpoint are queued.

        Returns how many were added, or were there.
        """
        now = time.monotonic()
        queue = self._by_endpoint.get(endpoint, deque())
        for count, (pk, subscription_id) in enumerate(deliveries):
            if pk in self.ids:
                continue
            if len(queue) >= limit or len(self.ids) >= MAX_QUEUED:
                return count
            queue.append(Queued(pk, subscription_id, now))
            self.ids.add(pk)
            self._by_endpoint[endpoint] = queue
        return len(deliveries)

    def take(self, endpoint: int, limit: int) -> list[Queued]:
        """Remove and return the oldest ones."""
        queue = self._by_endpoint[endpoint]
        taken = [queue.popleft() for _ in range(min(limit, len(queue)))]
        self._forget(endpoint, taken)
        return taken

    def overdue(self) -> list[Queued]:
        """Remove and return those of the endpoints whose oldest one has waited for too long."""
        before = time.monotonic() - LONGEST_SECONDS
        slow = [endpoint for endpoint, queue in self._by_endpoint.items() if queue[0].since <= before]
        return [each for endpoint in slow for each in self.take(endpoint, MAX_QUEUED)]

    def clear(self) -> None:
        self._by_endpoint.clear()
        self.ids.clear()

    def _forget(self, endpoint: int, taken: Collection[Queued]) -> None:
        self.ids.difference_update(each.id for each in taken)
        if not self._by_endpoint[endpoint]:
            del self._by_endpoint[endpoint]
