"""One turn of an orchestrator: due sagas get their attempts, results are applied."""

from __future__ import annotations

from .dispatch import dispatch
from .pending_work import todo
from .settle import Settler


class Orchestrator:
    def __init__(self) -> None:
        self._settler = Settler()

    def turn(self, batch_size: int) -> int:
        """Asks first, in one short statement: most turns find work of one kind only."""
        due, finished = todo()
        # What waits for its attempt comes before what has had it.
        return dispatch(batch_size, due) + self._settler.settle(batch_size, finished)
