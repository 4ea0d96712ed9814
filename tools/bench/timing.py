"""The time a run may take, and how it is shared out."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import TypeVar

T = TypeVar("T")


class Budget:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = time.monotonic()
        self._until = self._began
        # Runs of the present scenario for which there was no time.
        self.left_out = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the present scenario has had its share."""
        return self._until - time.monotonic()

    def allow(self, share: float) -> None:
        """The next scenario may take its share of the whole, and what those before it have left."""
        self.left_out = 0
        self._until += share * self._seconds

    def within(self, items: Collection[T], part: float = 1.0) -> Iterator[T]:
        """The first item in any case, and then those for which there is time, judged by the longest so far.

        `part` of what is left may be used.
        """
        longest = 0.0
        reserved = (1 - part) * self.left
        for number, item in enumerate(items):
            began = time.monotonic()
            if number and longest > self.left - reserved:
                self.left_out += len(items) - number
                return
            yield item
            longest = max(longest, time.monotonic() - began)
