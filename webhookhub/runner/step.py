"""What a loop repeats. A step does one batch and says how much it did; the loop alone decides what comes next."""

from __future__ import annotations

from collections.abc import Callable


class Step:
    def run(self, batch_size: int) -> int:
        """One batch; 0 means there was nothing to do."""
        raise NotImplementedError

    def on_notify(self) -> None:
        """Somebody says that there may be something to do."""

    def pending(self) -> str:
        """What is begun and not finished, in words; empty when the process may leave."""
        return ""

    def idle_for(self) -> float:
        """For how many seconds what is begun needs nobody."""
        return 0.0

    def poll(self, seconds: float) -> None:
        """For at most `seconds`, see to what is begun without touching the database."""

    def finish(self, batch_size: int) -> None:
        """Move what is begun towards its end, beginning nothing new."""

    def close(self) -> None:
        """Let go of what the step holds."""


class Batch(Step):
    """A step that is some functions, one after the other, and leaves nothing begun.

    `anything_to_do` is one short question that takes the place of all those that the functions ask, in a lull.
    """

    def __init__(self, *functions: Callable[[int], int], anything_to_do: Callable[[], bool] = lambda: True) -> None:
        self._functions = functions
        self._anything_to_do = anything_to_do
        self._lull = False

    def run(self, batch_size: int) -> int:
        if self._lull and not self._anything_to_do():
            return 0
        done = sum(function(batch_size) for function in self._functions)
        self._lull = not done
        return done
