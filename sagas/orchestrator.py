"""One turn of the orchestrator: apply requests, dispatch due sagas, settle finished jobs."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.db.exists import Condition, which_exist
from webhookhub.runner.hints import SHARED_BATCH, Flag, Hints, batch_beside
from webhookhub.runner.step import Step

from .apply_requests import DUE, apply_requests
from .dispatch import StartedSagas, admit, dispatch, dispatch_hinted
from .flow import Flow
from .models import Saga
from .settle import Settler
from .transitions import WAITING

CONDITIONS = (
    *(Condition(Saga, "status = %s AND next_attempt_at <= {now}", status) for status in WAITING),
    *(Condition(Job, "settled_at IS NULL AND status = %s", status) for status in FINISHED),
    DUE,
)


def pending_work() -> tuple[list[str], list[str], bool]:
    """The saga statuses with due sagas, the job statuses with unsettled jobs, and whether there are requests."""
    *exist, requested = which_exist(*CONDITIONS)
    due = [status for status, there in zip(WAITING, exist, strict=False) if there]
    finished = [status for status, there in zip(FINISHED, exist[len(WAITING) :], strict=True) if there]
    return due, finished, requested


class Orchestrator(Step):
    """Creates the jobs of hinted sagas at once, records progress and results soon, polls, and admits parked sagas."""

    def __init__(self) -> None:
        self._flow = Flow()
        self._started = StartedSagas()
        self._settler = Settler(self._flow.note_results)
        self._poll_soon = Flag()
        self._deliveries = Hints(self._poll_soon)
        self._results = Hints(self._poll_soon)

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        # Dispatch first: a due attempt has waited longer than a finished one.
        saga_ids = self._deliveries.take(batch_size)
        if saga_ids and not dispatch_hinted(saga_ids, self._flow, self._started):
            self._poll_soon.set()
        if job_ids := self._results.take(batch_size):
            self._flow.note_finished(job_ids)
            self._settler.hinted.add(job_ids)
        found = 0
        if self._poll_soon.take() or poll:
            found = self._poll(batch_size, batch_beside(saga_ids, batch_size))
        elif self._started.due(batch_size) or self._settler.hinted.due(batch_size):
            self._record_hinted(batch_size)
        if not self._flow.due_in():
            admit(batch_size, self._flow)
        return found

    def _poll(self, batch_size: int, due_limit: int) -> int:
        """One short query first: most polls find one kind of work or none."""
        self._record_hinted(batch_size)
        due, finished, requested = pending_work()
        applied = apply_requests(batch_size) if requested else 0
        if self._flow.is_parking:
            # The cost of a parked saga is that of its own update: small batches take hardly longer.
            due_limit = min(due_limit, SHARED_BATCH)
        found = dispatch(due_limit, due, self._flow)
        if found >= due_limit:
            self._poll_soon.set()
        return applied + found + self._settler.settle(batch_size, finished)

    def _record_hinted(self, batch_size: int) -> None:
        """Sets the sagas of hinted jobs InProgress, and applies hinted results: in this order, as a saga needs it."""
        self._started.follow(batch_size)
        self._settler.settle_hinted(batch_size)

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
        return 0.0 if self._deliveries or self._results or self._poll_soon else self._flow.due_in()

    def pending(self) -> str:
        if count := len(self._settler.hinted):
            return f"{count} {'result' if count == 1 else 'results'} to settle"
        count = len(self._started)
        return f"{count} {'delivery' if count == 1 else 'deliveries'} to set InProgress" if count else ""

    def idle_for(self) -> float:
        return min((held.idle_for() for held in (self._started, self._settler.hinted) if held), default=0.0)

    def finish(self, batch_size: int) -> None:
        while job_ids := self._results.take(batch_size):
            self._settler.hinted.add(job_ids)
        self._record_hinted(batch_size)
