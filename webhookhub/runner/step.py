"""The work that a loop repeats. A step does one batch and returns its size; the loop decides what comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class CannotStart(Exception):
    """A step cannot be created; the message is a sentence that says why."""


class Step:
    def run(self, batch_size: int) -> int:
        """Does one batch without waiting for the network; 0 means that there was nothing to do."""
        raise NotImplementedError

    def on_notify(self) -> None:
        """Called after a notification that there may be work."""

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        """Rows that may be ready for this step: hints, which may be stale, wrong or missing. Empty: look for work."""
        self.on_notify()

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

    While idle, the one short query `anything_to_do` replaces the queries of all functions.
    """

    def __init__(self, *functions: Callable[[int], int], anything_to_do: Callable[[], bool] = lambda: True) -> None:
        self._functions = functions
        self._anything_to_do = anything_to_do
        self._idle = False

    def run(self, batch_size: int) -> int:
        if self._idle and not self._anything_to_do():
            return 0
        done = sum(function(batch_size) for function in self._functions)
        self._idle = not done
        return done
