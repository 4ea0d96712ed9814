from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.lookup import subscription_or_error
from subscriptions.secrets import RotationConflict, rotate
from subscriptions.signing import SCHEMES
from webhookhub.conf import hub


class Command(BaseCommand):
    help = "Replaces a subscription's signing secret and prints the new one, once. Both sign for a while."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's number")
        parser.add_argument("--scheme", choices=SCHEMES, help="change the kind of signature too")

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        try:
            shown = rotate(subscription, options["scheme"])
        except RotationConflict as error:
            raise CommandError(str(error)) from None
        hours = hub().secret_overlap.total_seconds() / 3600
        self.stdout.write(f"{shown}\nThe previous secret signs as well for {hours:g} hours.")
