"""One turn of the orchestrator: apply requests, dispatch due sagas, settle finished jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from functools import partial

from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.db.exists import Condition, which_exist
from webhookhub.runner.hints import Flag, Hints
from webhookhub.runner.portions import Portion
from webhookhub.runner.step import Step

from .apply_requests import DUE, apply_requests
from .dispatch import StartedSagas, admit, dispatch, dispatch_hinted, dispatch_queued, park_overdue
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
        self._settler = Settler(self._flow.note_results, self._flow.note_gone)
        self._poll_soon = Flag()
        self._deliveries = Hints(self._poll_soon)
        self._results = Hints(self._poll_soon)
        # Whether more sagas may be due than the last batch had.
        self._more_due = False
        kinds = (Portion(self._deliveries) for _ in range(6))
        self._hinted, self._due, self._followed, self._settled, self._found, self._admitted = kinds

    def run(self, batch_size: int, *, poll: bool = True) -> int:
        # Dispatch first: a due attempt has waited longer than a finished one.
        self.run_few(batch_size)
        if self._deliveries:
            self._hinted.run(batch_size, lambda limit: self._dispatch_hinted(self._deliveries.take_bulk(limit)))
            self.between()
        found = 0
        if self._poll_soon.take() or poll:
            found = self._poll(batch_size)
        else:
            if self._started.due(batch_size) or self._settler.hinted.due(batch_size):
                self._record_hinted(batch_size)
            if self._more_due:
                self._poll_due(batch_size, WAITING)
        if not self._flow.due_in():
            self._admitted.run(batch_size, self._admit)
            self.between()
        return found

    def has_few(self) -> bool:
        return self._deliveries.has_few

    def run_few(self, batch_size: int) -> None:
        self._dispatch_hinted(self._deliveries.take_few(batch_size))
        if job_ids := self._results.take(batch_size):
            self._flow.note_finished(job_ids)
            self._settler.hinted.add(job_ids)

    def _dispatch_hinted(self, saga_ids: Sequence[int]) -> int:
        if saga_ids and not dispatch_hinted(saga_ids, self._flow, self._started):
            self._more_due = True
        return len(saga_ids)

    def _poll(self, batch_size: int) -> int:
        """One short query first: most polls find one kind of work or none."""
        self._record_hinted(batch_size)
        due, finished, requested = pending_work()
        applied = apply_requests(batch_size) if requested else 0
        found = applied + self._poll_due(batch_size, due)
        if finished:
            found += self._found.run(batch_size, lambda limit: self._settler.settle(limit, finished))
            self.between()
        return found

    def _poll_due(self, batch_size: int, statuses: Sequence[str]) -> int:
        total, self._more_due = 0, False
        for status in statuses:
            limit = self._due.limit(batch_size)
            found = self._due.run(batch_size, partial(self._dispatch, status))
            self._more_due = self._more_due or found >= limit
            total += found
            self.between()
        return total

    def _dispatch(self, status: str, limit: int) -> int:
        return dispatch(limit, [status], self._flow, self._started.ids)

    def _admit(self, limit: int) -> int:
        """Queued deliveries are older than parked ones."""
        self._flow.sweep()
        park_overdue(self._flow)
        queued = dispatch_queued(limit, self._flow, self._started)
        if queued is None:
            self._more_due = True
            return 0
        return queued + (admit(limit - queued, self._flow) if queued < limit else 0)

    def _record_hinted(self, batch_size: int) -> None:
        """Sets the sagas of hinted jobs InProgress, and applies hinted results: in this order, as a saga needs it."""
        self._record(self._started, self._followed, batch_size, self._started.follow)
        self._record(self._settler.hinted, self._settled, batch_size, self._settler.settle_hinted)

    def _record(self, held: Sized, portion: Portion, batch_size: int, record: Callable[[int], object]) -> None:
        def handle(limit: int) -> int:
            before = len(held)
            record(limit)
            return before - len(held)

        left = len(held)  # not those that are added in between
        while left > 0:
            left -= portion.run(batch_size, handle)
            self.between()

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
        has_work = self._deliveries or self._results or self._poll_soon or self._more_due
        return 0.0 if has_work else self._flow.due_in()

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
