"""The work that a loop repeats. A step does one batch and returns its size; the loop decides what comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from webhookhub.db.exists import Condition


class CannotStart(Exception):
    """A step cannot be created; the message is a sentence that says why."""


class Step:
    def run(self, batch_size: int, *, poll: bool = True) -> int:
        """Handles the hinted rows and, with `poll`, one batch of what a query finds; does not wait for the network.

        Returns how many rows the query has found. A step that needs to, queries without `poll`, too.
        """
        raise NotImplementedError

    def on_notify(self) -> None:
        """Called after a notification that there may be work."""

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        """Rows that may be ready for this step: hints, which may be stale, wrong or missing. Empty: look for work."""
        self.on_notify()

    def conditions(self) -> Sequence[Condition] | None:
        """The step has work only if one of these holds; None if this cannot be said. Used while the step is idle."""
        return None

    def pending(self) -> str:
        """A description of unfinished work; empty when the process may stop."""
        return ""

    def idle_for(self) -> float:
        """For how many seconds the unfinished work needs no attention, unless a file is ready."""
        return 0.0

    def files(self) -> tuple[Sequence[int], Sequence[int]]:
        """The file descriptors that the unfinished work waits to read from and to write to."""
        return (), ()

    def poll(self, seconds: float) -> None:
        """Attends to unfinished work for at most `seconds`, without using the database."""

    def finish(self, batch_size: int) -> None:
        """Continues unfinished work, without starting new work."""

    def close(self) -> None:
        """Releases the step's resources."""


class Batch(Step):
    """A step that calls some functions in turn and leaves nothing unfinished.

    `conditions`: see Step.conditions().
    """

    def __init__(
        self, *functions: Callable[[int], int], conditions: Callable[[], Sequence[Condition] | None] = lambda: None
    ) -> None:
        self._functions = functions
        self._conditions = conditions
        self._notified = False

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        return sum(function(batch_size) for function in self._functions) if poll or self._is_notified() else 0

    def on_notify(self) -> None:
        self._notified = True

    def _is_notified(self) -> bool:
        notified, self._notified = self._notified, False
        return notified

    def conditions(self) -> Sequence[Condition] | None:
        return self._conditions()
