from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.management.arguments import subscription_or_error
from subscriptions.secrets import OverlapRunning, RotationRefused, WrongKeys, rotate
from subscriptions.signing import SCHEMES
from webhookhub.conf import hub


class Command(BaseCommand):
    help = "Replaces a subscription's signing secret and prints the new one once. Both sign during an overlap."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's id")
        parser.add_argument("--scheme", choices=SCHEMES, help="change the signing scheme too")
        parser.add_argument("--force", action="store_true", help="end the running overlap of an earlier rotation")
        parser.add_argument(
            "--key-lost",
            action="store_true",
            help="replace a secret that no encryption key opens; first give all processes the current keys",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        try:
            secret = rotate(subscription, options["scheme"], force=options["force"], key_lost=options["key_lost"])
        except OverlapRunning as error:
            raise CommandError(f"Nothing was changed: {error}. Use --force to do it anyway.") from None
        except WrongKeys as error:
            raise CommandError(
                f"Nothing was changed: {error}. If that key is lost, use --key-lost; see docs/configure.md."
            ) from None
        except RotationRefused as error:
            raise CommandError(f"Nothing was changed: {error}.") from None
        self.stdout.write(secret)
        if subscription.previous_secret_until is not None:
            hours = hub().secret_overlap.total_seconds() / 3600
            self.stdout.write(f"The previous secret signs too for {hours:g} hours.")
        else:
            self.stdout.write("The previous secret no longer signs.")
