from jobs.step import WorkerStep
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


class Command(LoopCommand):
    help = "Leases attempts, sends them and stores their results, until it gets TERM or INT."
    kind = "worker"

    def make_step(self, process_name: str) -> Step:
        return WorkerStep(process_name)
