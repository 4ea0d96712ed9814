from jobs.step import CleanerStep
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


class Command(LoopCommand):
    help = "Resets expired leases and removes the rows of ended processes, until it gets TERM or INT."
    kind = "cleaner"

    def make_step(self, process_name: str) -> Step:
        return CleanerStep()
