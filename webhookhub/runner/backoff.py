"""How long a step waits between polls: briefly after work without a hint, then longer and longer."""

from __future__ import annotations

import random

SHORTEST_SECONDS = 0.01
GROWTH = 1.5


class Backoff:
    """A delivery passes three steps. While a step finds work that no hint has named, it polls again almost at once; an
    idle hub, and one whose hints arrive, polls only as often as the interval says."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self._next = min(SHORTEST_SECONDS, longest)

    def reset(self) -> None:
        """After work without a hint: more of it may follow soon."""
        self._next = min(SHORTEST_SECONDS, self.longest)

    def after(self, seconds: float) -> float:
        """The wait after a poll of `seconds`, at most `longest`. About as long as the poll took, or longer, so that
        polling never takes most of the time. With jitter, so that processes started together do not poll together."""
        pause = max(min(self._next, self.longest), min(seconds, self.longest))
        self._next = min(self._next * GROWTH, self.longest)
        return pause * random.uniform(0.75, 1.0)  # noqa: S311
