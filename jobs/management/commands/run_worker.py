from jobs.step import WorkerStep
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


class Command(LoopCommand):
    help = "Takes attempts, sends them and reports how they ended, until it is told to stop (TERM)."
    kind = "worker"

    def make_step(self, process_name: str) -> Step:
        return WorkerStep(process_name)
