from events.models import RoutingInbox
from events.routing import Router
from webhookhub.db.exists import Condition
from webhookhub.runner.command import LoopCommand
from webhookhub.runner.step import Batch, Step


class Command(LoopCommand):
    help = "Routes new events to their subscriptions, until it gets TERM or INT."
    kind = "router"

    def make_step(self, process_name: str) -> Step:
        return Batch(Router().route, conditions=lambda: [Condition(RoutingInbox)])
