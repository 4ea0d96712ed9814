from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from subscriptions import credential_services
from subscriptions.management.credential_command import CredentialCommand
from subscriptions.models import Subscription


class Command(CredentialCommand):
    help = "Sets, removes or shows the client certificate that the hub shows to a subscription's endpoint."
    remove_help = "remove the certificate and its key"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--certificate", type=Path, help="a file with the certificate and those of its issuers (PEM)"
        )
        parser.add_argument("--key", type=Path, help="a file with the private key (PEM, not encrypted)")

    def is_given(self, options: Mapping[str, Any]) -> bool:
        certificate, key = options["certificate"], options["key"]
        if (certificate is None) != (key is None) or (options["remove"] and key):
            raise CommandError("Give --certificate and --key together, or --remove, or none of them.")
        return key is not None

    def store(self, subscription: Subscription, options: Mapping[str, Any]) -> None:
        credential_services.set_certificate(subscription, _read(options["certificate"]), _read(options["key"]))

    def remove(self, subscription: Subscription) -> bool:
        return credential_services.remove_certificate(subscription)

    def facts(self, subscription: Subscription) -> Mapping[str, Any] | None:
        facts = credential_services.certificate_facts(subscription)
        return facts and facts._asdict()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Nothing was stored: {path} cannot be read: {error}") from None
