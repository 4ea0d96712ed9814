"""How long a loop waits when a poll found nothing: briefly after work, longer and longer while idle."""

from __future__ import annotations

import random

SHORTEST_SECONDS = 0.01
GROWTH = 1.5


class Backoff:
    """A delivery passes three loops. While events arrive, each loop polls again almost at once; an idle hub polls only
    as often as the interval says."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._next = min(SHORTEST_SECONDS, longest)

    def reset(self) -> None:
        """After work: more of it may follow soon."""
        self._next = min(SHORTEST_SECONDS, self._longest)

    def after(self, seconds: float) -> float:
        """The wait after a poll of `seconds` that found nothing. At least as long as the poll took, so that polling
        never takes most of the time. With jitter, so that processes started together do not poll together."""
        pause = max(self._next, min(seconds, self._longest))
        self._next = min(self._next * GROWTH, self._longest)
        return pause * random.uniform(0.75, 1.25)  # noqa: S311
