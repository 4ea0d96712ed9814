from jobs.step import CleanerStep
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


class Command(LoopCommand):
    help = "Resets the leases of workers that have gone silent, until it is told to stop (TERM)."
    kind = "cleaner"

    def make_step(self, process_name: str) -> Step:
        return CleanerStep()
