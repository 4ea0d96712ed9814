from webhookhub.logs import Log, log
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Batch, CannotStart, Step
from workflows import versions
from workflows.parsing import InvalidDefinition
from workflows.tracked_types import CatchUp, listen
from workflows.tracker import WORK, Tracker


class Command(LoopCommand):
    help = "Tracks business workflows over their events and finds runs that time out, until stopped (TERM)."
    kind = "workflows"

    def make_step(self, process_name: str) -> Step:
        try:
            registry = versions.in_force()
        except InvalidDefinition as error:
            raise CannotStart(f"A definition is not valid: {error}.") from None
        for newest, current in registry.overtaken:
            log(Log.WORKFLOW_DEFINITION_OUTDATED, newest_file=newest.label_with_file, in_force=current.label)
        listen(registry)
        tracker, catching_up = Tracker(registry), CatchUp()
        # Deadlines come last, after all facts are tracked. A definition that becomes invalid later ends the process;
        # when it is started again it reads the files, which may have been fixed.
        return Batch(
            catching_up.catch_up,
            tracker.track,
            tracker.touch,
            tracker.expire,
            conditions=lambda: None if catching_up.is_due else WORK,
        )
