"""How much of a worker a receiver may take up, by how it has answered of late.

A receiver that takes its time, or never answers, must not keep the others waiting; one whose name hangs in the name
service must not take all of libcurl's resolver threads.
"""

from __future__ import annotations

from .messages import Answer

SLOW_MILLISECONDS = 1000
# Requests at once to a receiver that is not known yet, or that has let the last one run into the time-out.
FEW = 2
MOST_REMEMBERED = 10_000

FAST, SLOW, SILENT = "fast", "slow", "silent"


class Pace:
    def __init__(self, most: int) -> None:
        self._most = most
        self._manners: dict[str, str] = {}

    def limit(self, origin: str) -> int:
        """Requests that may be under way at once."""
        return self._most if self._manners.get(origin) in (FAST, SLOW) else min(FEW, self._most)

    def may_queue(self, origin: str) -> bool:
        """Whether further requests may wait in the worker for their turn: not where that would take long."""
        return self._manners.get(origin, FAST) == FAST

    def note(self, origin: str, answer: Answer) -> None:
        manner = FAST  # a quick refusal takes up nothing either
        if answer.duration_ms > SLOW_MILLISECONDS:
            manner = SILENT if answer.status is None else SLOW
        self._remember(origin, manner)

    def note_wait(self, origin: str) -> None:
        """A request has waited for its turn in vain: until the receiver answers again, no other waits for it."""
        self._remember(origin, SLOW if self._manners.get(origin) in (FAST, SLOW) else SILENT)

    def _remember(self, origin: str, manner: str) -> None:
        if self._manners.get(origin) != manner:
            self._manners.pop(origin, None)
            self._manners[origin] = manner
            if len(self._manners) > MOST_REMEMBERED:
                del self._manners[next(iter(self._manners))]
