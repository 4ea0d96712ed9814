from webhookhub.logs import Fact, log
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.errors import CannotStart
from webhookhub.runner.step import Batch, Step
from workflows import versions
from workflows.listening import CatchUp, listen
from workflows.parsing import InvalidDefinition
from workflows.pending_work import anything_to_do
from workflows.timeouts import Monitor
from workflows.tracker import Tracker


class Command(LoopCommand):
    help = (
        "Tracks business workflows over their events and notices those that time out, until it is told to stop (TERM)."
    )
    kind = "workflows"

    def make_step(self, process_name: str) -> Step:
        try:
            registry = versions.in_force()
        except InvalidDefinition as error:
            raise CannotStart(f"A definition is at fault: {error}.") from None
        for newest, current in registry.overtaken:
            log(Fact.WORKFLOW_OVERTAKEN, newest_file=newest.label_with_file, in_force=current.label)
        listen(registry)
        tracker, catching_up = Tracker(registry), CatchUp()
        # The monitor last: what has been told by now has been heard. A definition that turns out to be at fault later
        # ends the process as any error does: started again it reads the files, which may have been put right since.
        return Batch(
            catching_up.catch_up,
            tracker.track,
            tracker.touch,
            Monitor(registry).expire,
            anything_to_do=lambda: catching_up.is_due or anything_to_do(),
        )
