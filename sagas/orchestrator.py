"""One turn of the orchestrator: dispatch due sagas, settle finished jobs."""

from __future__ import annotations

from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.db.exists import Condition, which_exist

from .dispatch import dispatch
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


class Orchestrator:
    def __init__(self) -> None:
        self._settler = Settler()

    def turn(self, batch_size: int) -> int:
        """Returns how many rows were processed. One short query first: most turns find one kind of work or none."""
        due, finished = pending_work()
        # Dispatch first: a due attempt has waited longer than a finished one.
        return dispatch(batch_size, due) + self._settler.settle(batch_size, finished)
