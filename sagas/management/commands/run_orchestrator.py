from sagas.orchestrator import Orchestrator
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Batch, Step


class Command(LoopCommand):
    help = "Gives due deliveries their next attempt and applies the results, until it is told to stop (TERM)."
    kind = "orchestrator"

    def make_step(self, process_name: str) -> Step:
        return Batch(Orchestrator().turn)
