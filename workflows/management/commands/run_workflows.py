from collections.abc import Callable

from webhookhub.db.errors import UnfitDatabase
from webhookhub.logs import Fact, log
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Batch, Step
from workflows import used
from workflows.listening import CatchUp, listen
from workflows.parsing import InvalidDefinition
from workflows.timeouts import Monitor
from workflows.todo import anything_to_do
from workflows.tracker import Tracker


class Command(LoopCommand):
    help = (
        "Tracks business workflows over their events and notices those that time out, until it is told to stop (TERM)."
    )
    kind = "workflows"

    def make_step(self, process_name: str) -> Step:
        try:
            registry = used.in_force()
        except InvalidDefinition as error:
            raise UnfitDatabase(str(error)) from None
        for newest, current in registry.overtaken:
            log(Fact.WORKFLOW_OVERTAKEN, newest_file=newest.label_with_file, in_force=current.label)
        listen(registry)
        tracker, catching_up = Tracker(registry), CatchUp()
        # The monitor last: what has been told by now has been heard.
        return Batch(
            _fit(catching_up.catch_up),
            _fit(tracker.track),
            _fit(tracker.touch),
            _fit(Monitor(registry).expire),
            anything_to_do=lambda: catching_up.is_due or anything_to_do(),
        )


def _fit(step: Callable[[int], int]) -> Callable[[int], int]:
    """A definition at fault is said in one line, and the process is not started again until somebody has seen to it."""

    def run(batch_size: int) -> int:
        try:
            return step(batch_size)
        except InvalidDefinition as error:
            raise UnfitDatabase(str(error)) from None

    return run
