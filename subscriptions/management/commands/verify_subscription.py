from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.management.arguments import subscription_or_error
from subscriptions.verification import describe, verify


class Command(BaseCommand):
    help = "Sends a challenge to a subscription's endpoint. Only a verified subscription gets events."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's id")

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        verification = verify(subscription)
        url, result = subscription.callback_url, describe(verification.result)
        if not verification.verified and subscription.verified:
            raise CommandError(f"The verification of {url} failed: {result}. The earlier verification stays valid.")
        if not verification.verified:
            raise CommandError(f"{url} is not verified: {result}.")
        self.stdout.write(f"{url} is verified: {result}.")
