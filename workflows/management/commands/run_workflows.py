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
    help = "Tracks business workflows by their events and detects time-outs, until it gets TERM or INT."
    kind = "workflows"

    def make_step(self, process_name: str) -> Step:
        try:
            registry = versions.in_force()
        except InvalidDefinition as error:
            raise CannotStart(f"A definition is at fault: {error}.") from None
        for newest, current in registry.overtaken:
            log(Fact.WORKFLOW_OVERTAKEN, newest_file=newest.label_with_file, in_force=current.label)
        listen(registry)
        tracker, catch_up = Tracker(registry), CatchUp()
        # The monitor last, after the events that exist by now are tracked. A definition that turns out to be invalid
        # later ends the process like any error; after a restart it reads the files again.
        return Batch(
            catch_up.catch_up,
            tracker.track,
            tracker.touch,
            Monitor(registry).expire,
            anything_to_do=lambda: catch_up.is_due or anything_to_do(),
        )
