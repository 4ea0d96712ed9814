from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.health import enable
from subscriptions.management.arguments import subscription_or_error
from webhookhub.validators import InvalidReason


class Command(BaseCommand):
    help = "Enables the endpoint of a subscription that was disabled after a 410 or because it failed for too long."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the id of one of its subscriptions")
        parser.add_argument("--reason", required=True, help="why; kept in the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        try:
            enabled = enable(subscription, reason=options["reason"])
        except InvalidReason as error:
            raise CommandError(f"Nothing was changed: {error}.") from None
        state = "is enabled" if enabled else "was not disabled"
        self.stdout.write(f"{subscription.shown_url} {state}.")
