"""The work that a loop repeats. A step does one batch; the loop decides when it runs and when it polls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from webhookhub.db.exists import Condition

from .hints import Flag


class CannotStart(Exception):
    """A step cannot be created; the message is a sentence that says why."""


class Step:
    def run(self, batch_size: int, *, poll: bool = True) -> int:
        """Handles the hinted rows and, with `poll`, one batch of what a query finds; does not wait for the network.

        Returns how many rows the query has found. A step that needs to, queries without `poll`, too.
        """
        raise NotImplementedError

    def between(self) -> None:
        """Called by a step between two portions of bulk work: all steps handle the rows that came one by one.

        Set by the loop. No transaction is open.
        """

    def has_few(self) -> bool:
        """Whether rows were hinted that came one by one."""
        return False

    def run_few(self, batch_size: int) -> None:
        """Handles the hinted rows that came one by one, and nothing else."""

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        """Rows that may be ready for this step: hints, which may be stale, wrong or missing. Empty: look for work."""

    def hints_in(self) -> float:
        """After how many seconds the step must run again for hints that it has not used; infinite without any."""
        return math.inf

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
        """Continues unfinished work and handles hinted results, without starting new work."""

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
        self._poll_soon = Flag()

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        return sum(function(batch_size) for function in self._functions) if self._poll_soon.take() or poll else 0

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        self._poll_soon.set()

    def conditions(self) -> Sequence[Condition] | None:
        return self._conditions()
