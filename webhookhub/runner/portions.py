"""How many rows of bulk work a step handles at once.

Rows that come one by one are handled between two portions of bulk, so a portion must be short while there are any. It
must not be shorter than necessary: the fixed cost of its statements is paid for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .hints import Hints

# The time that a portion may take while rows come one by one.
PORTION_SECONDS = 0.015
SMALLEST = 25
# For how long a row that came alone makes portions short: another one is likely to follow.
REMEMBERED_SECONDS = 1.0
# The share of the newest portion in the average.
NEWEST = 0.3


class Portion:
    """The portions of one kind of work, in a step with these hints. Follows how long its rows take."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._rows = 2.0 * SMALLEST

    @property
    def is_short(self) -> bool:
        """Whether rows have come one by one lately."""
        return time.monotonic() - self._hints.few_at <= REMEMBERED_SECONDS

    def limit(self, batch_size: int) -> int:
        """The number of rows that the next portion may have."""
        return min(batch_size, max(SMALLEST, int(self._rows))) if self.is_short else batch_size

    def run(self, batch_size: int, work: Callable[[int], int]) -> int:
        """One portion: `work` gets its limit and returns how many rows it has handled. Returns the same."""
        limit, started_at = self.limit(batch_size), time.monotonic()
        rows = work(limit)
        # The time of a small portion is that of its statements.
        if rows >= SMALLEST:
            fitting = rows * PORTION_SECONDS / max(time.monotonic() - started_at, 0.0001)
            self._rows += NEWEST * (min(fitting, 2 * self._rows) - self._rows)
        return rows
