from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions import credential_services
from subscriptions.credentials import InvalidCredentials
from subscriptions.management.arguments import subscription_or_error
from subscriptions.models import Subscription
from webhookhub.db.requirements import UnsuitableDatabase


class Command(BaseCommand):
    help = "Sets, removes or shows the client certificate that the hub shows to a subscription's endpoint."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's id")
        parser.add_argument(
            "--certificate", type=Path, help="a file with the certificate and those of its issuers (PEM)"
        )
        parser.add_argument("--key", type=Path, help="a file with the private key (PEM, not encrypted)")
        parser.add_argument("--remove", action="store_true", help="remove the certificate and its key")

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        if (options["certificate"] is None) != (options["key"] is None) or (options["remove"] and options["key"]):
            raise CommandError("Give --certificate and --key together, or --remove, or none of them.")
        if options["remove"]:
            removed = credential_services.remove_certificate(subscription)
            self.stdout.write("Removed." if removed else "There is none.")
            return
        if options["key"] is not None:
            self._set(subscription, options["certificate"], options["key"])
        self._show(subscription)

    def _set(self, subscription: Subscription, certificate: Path, key: Path) -> None:
        try:
            credential_services.set_certificate(subscription, _read(certificate), _read(key))
        except InvalidCredentials as error:
            raise CommandError(f"Nothing was stored: {error}") from None
        except UnsuitableDatabase as error:
            raise CommandError(f"Nothing was stored: {error}.") from None

    def _show(self, subscription: Subscription) -> None:
        if credential_services.are_unreadable(subscription):
            raise CommandError("None of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored credentials.")
        facts = credential_services.certificate_facts(subscription)
        if facts is None:
            self.stdout.write("There is none.")
            return
        for name, value in facts._asdict().items():
            self.stdout.write(f"{name.replace('_', ' ')}: {value}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Nothing was stored: {path} cannot be read: {error}") from None
