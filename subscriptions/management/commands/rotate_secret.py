from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions.lookup import subscription_or_error
from subscriptions.secrets import OverlapRunning, RotationRefused, WrongKeys, rotate
from subscriptions.signing import SCHEMES
from webhookhub.conf import hub


class Command(BaseCommand):
    help = "Replaces a subscription's signing secret and prints the new one, once. Both sign for a while."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's number")
        parser.add_argument("--scheme", choices=SCHEMES, help="change the kind of signature too")
        parser.add_argument(
            "--force", action="store_true", help="end the overlap of an earlier rotation that is still running"
        )
        parser.add_argument(
            "--key-lost",
            action="store_true",
            help="replace a secret that no encryption key opens any more; every process must have today's keys by then",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        try:
            shown = rotate(subscription, options["scheme"], force=options["force"], key_lost=options["key_lost"])
        except OverlapRunning as error:
            raise CommandError(f"Nothing was changed: {error}. With --force it is done all the same.") from None
        except WrongKeys as error:
            raise CommandError(
                f"Nothing was changed: {error}. If that key is lost for good: --key-lost, see docs/configure.md."
            ) from None
        except RotationRefused as error:
            raise CommandError(f"Nothing was changed: {error}.") from None
        self.stdout.write(shown)
        if subscription.previous_secret_until is not None:
            hours = hub().secret_overlap.total_seconds() / 3600
            self.stdout.write(f"The previous secret signs as well for {hours:g} hours.")
        else:
            self.stdout.write("The previous secret signs no more.")
