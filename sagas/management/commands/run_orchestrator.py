from sagas.orchestrator import Orchestrator
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


class Command(LoopCommand):
    help = "Creates the next attempts of due deliveries and applies results, until it gets TERM or INT."
    kind = "orchestrator"

    def make_step(self, process_name: str) -> Step:
        return Orchestrator()
