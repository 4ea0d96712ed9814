"""How long to wait when there was nothing to do: hardly at all after work, longer and longer in a lull."""

from __future__ import annotations

import random

SHORTEST_SECONDS = 0.01
GROWTH = 1.5


class Backoff:
    """A delivery passes three loops: where events keep coming each is asked again within moments, and an idle hub asks
    only as often as the interval says."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._next = min(SHORTEST_SECONDS, longest)

    def reset(self) -> None:
        """There was something to do: more of it may be close behind."""
        self._next = min(SHORTEST_SECONDS, self._longest)

    def after(self, seconds: float) -> float:
        """The wait after asking in vain, which took `seconds`: at least as long, so that asking is never most of what
        a process does. With jitter: processes that were started together do not ask together ever after."""
        pause = max(self._next, min(seconds, self._longest))
        self._next = min(self._next * GROWTH, self._longest)
        return pause * random.uniform(0.75, 1.25)  # noqa: S311
