from events.routing import RouterStep
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Step


class Command(LoopCommand):
    help = "Routes new events to their subscriptions, until it gets TERM or INT."
    kind = "router"

    def make_step(self, process_name: str) -> Step:
        return RouterStep()
