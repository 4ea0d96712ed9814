from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.lookup import subscription_or_error
from subscriptions.verification import verify


class Command(BaseCommand):
    help = "Asks a subscription's endpoint to send a challenge back; only then does it get events."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's number")

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        result = verify(subscription)
        if not result.verified and subscription.verified:
            raise CommandError(
                f"The verification of {subscription.callback_url} failed: {result.reason}. "
                "It stays verified from before."
            )
        if not result.verified:
            raise CommandError(f"{subscription.callback_url} is not verified: {result.reason}.")
        self.stdout.write(f"{subscription.callback_url} is verified: {result.reason}.")
