"""One turn of the orchestrator: dispatch due sagas, settle finished jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.db.exists import Condition, which_exist
from webhookhub.runner.hints import Flag, Hints
from webhookhub.runner.step import Step

from .dispatch import dispatch, dispatch_hinted
from .models import Saga
from .settle import Settler
from .transitions import WAITING

CONDITIONS = (
    *(Condition(Saga, "status = %s AND next_attempt_at <= {now}", status) for status in WAITING),
    *(Condition(Job, "settled_at IS NULL AND status = %s", status) for status in FINISHED),
)


def pending_work() -> tuple[list[str], list[str]]:
    """The saga statuses with due sagas, and the job statuses with unsettled jobs."""
    exist = which_exist(*CONDITIONS)
    due = [status for status, there in zip(WAITING, exist, strict=False) if there]
    return due, [status for status, there in zip(FINISHED, exist[len(WAITING) :], strict=True) if there]


class Orchestrator(Step):
    """Dispatches hinted sagas at once, settles hinted results soon, and polls for due sagas and finished jobs."""

    def __init__(self) -> None:
        self._settler = Settler()
        self._poll_soon = Flag()
        self._deliveries = Hints(self._poll_soon)
        self._results = Hints(self._poll_soon)

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        # Dispatch first: a due attempt has waited longer than a finished one.
        if (saga_ids := self._deliveries.take(batch_size)) and not dispatch_hinted(saga_ids):
            self._poll_soon.set()
        if job_ids := self._results.take(batch_size):
            self._settler.hinted.add(job_ids)
        if self._poll_soon.take() or poll:
            return self._poll(batch_size)
        if self._settler.hinted.due(batch_size):
            self._settler.settle_hinted(batch_size)
        return 0

    def _poll(self, batch_size: int) -> int:
        """One short query first: most polls find one kind of work or none."""
        self._settler.settle_hinted(batch_size)
        due, finished = pending_work()
        return dispatch(batch_size, due) + self._settler.settle(batch_size, finished)

    def conditions(self) -> Sequence[Condition]:
        return CONDITIONS

    def hint(self, topic: str, ids: Sequence[int]) -> None:
        if topic == "deliveries":
            self._deliveries.add(ids)
        elif topic == "results":
            self._results.add(ids)
        else:
            self._poll_soon.set()

    def hints_in(self) -> float:
        return 0.0 if self._deliveries or self._results or self._poll_soon else math.inf

    def pending(self) -> str:
        count = len(self._settler.hinted)
        return f"{count} {'result' if count == 1 else 'results'} to settle" if count else ""

    def idle_for(self) -> float:
        return self._settler.hinted.idle_for()

    def finish(self, batch_size: int) -> None:
        while job_ids := self._results.take(batch_size):
            self._settler.hinted.add(job_ids)
        self._settler.settle_hinted(batch_size)
