import sys
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from subscriptions import credential_services
from subscriptions.credentials import OAuth2Client
from subscriptions.management.credential_command import CredentialCommand
from subscriptions.models import Subscription
from subscriptions.oauth2 import AUTHENTICATIONS, BASIC


class Command(CredentialCommand):
    help = "Sets, removes or shows the OAuth2 client that gets the tokens for a subscription's endpoint."
    remove_help = "remove the client and its secret"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--token-url", help="set a client; its secret is read from standard input")
        parser.add_argument("--client-id", default="")
        parser.add_argument("--scope", default="")
        parser.add_argument("--audience", default="")
        parser.add_argument("--authentication", choices=AUTHENTICATIONS, default=BASIC)

    def is_given(self, options: Mapping[str, Any]) -> bool:
        if options["remove"] and options["token_url"]:
            raise CommandError("Give --token-url or --remove, not both.")
        return options["token_url"] is not None

    def store(self, subscription: Subscription, options: Mapping[str, Any]) -> None:
        # Not as an argument: other users of the machine can see those.
        secret = sys.stdin.readline().rstrip("\r\n")
        values = {name: options[name] for name in OAuth2Client._fields if name != "client_secret"}
        credential_services.set_oauth2(subscription, OAuth2Client(**values, client_secret=secret))

    def remove(self, subscription: Subscription) -> bool:
        return credential_services.remove_oauth2(subscription)

    def facts(self, subscription: Subscription) -> Mapping[str, Any] | None:
        client = credential_services.shown_oauth2(subscription)
        return client and client._asdict()
