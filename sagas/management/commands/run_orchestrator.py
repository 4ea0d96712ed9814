from sagas.dispatch import dispatch
from sagas.settle import Settler
from sagas.todo import anything_to_do
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Batch, Step


class Command(LoopCommand):
    help = "Gives due deliveries their next attempt and applies the results, until it is told to stop (TERM)."
    kind = "orchestrator"

    def make_step(self, process_name: str) -> Step:
        return Batch(Settler().settle, dispatch, anything_to_do=anything_to_do)
