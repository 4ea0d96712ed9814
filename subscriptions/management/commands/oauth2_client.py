import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions import credential_services
from subscriptions.credentials import InvalidCredentials, OAuth2Client
from subscriptions.management.arguments import subscription_or_error
from subscriptions.models import Subscription
from subscriptions.oauth2 import AUTHENTICATIONS, BASIC
from webhookhub.db.requirements import UnsuitableDatabase


class Command(BaseCommand):
    help = "Sets, removes or shows the OAuth2 client that gets the tokens for a subscription's endpoint."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's id")
        parser.add_argument("--token-url", help="set a client; its secret is read from standard input")
        parser.add_argument("--client-id", default="")
        parser.add_argument("--scope", default="")
        parser.add_argument("--audience", default="")
        parser.add_argument("--authentication", choices=AUTHENTICATIONS, default=BASIC)
        parser.add_argument("--remove", action="store_true", help="remove the client and its secret")

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        if options["remove"]:
            if options["token_url"]:
                raise CommandError("Give --token-url or --remove, not both.")
            removed = credential_services.remove_oauth2(subscription)
            self.stdout.write("Removed." if removed else "There is none.")
            return
        if options["token_url"] is not None:
            self._set(subscription, options)
        self._show(subscription)

    def _set(self, subscription: Subscription, options: dict[str, Any]) -> None:
        # Not as an argument: other users of the machine can see those.
        secret = sys.stdin.readline().rstrip("\r\n")
        values = {name: options[name] for name in OAuth2Client._fields if name != "client_secret"}
        try:
            credential_services.set_oauth2(subscription, OAuth2Client(**values, client_secret=secret))
        except InvalidCredentials as error:
            raise CommandError(f"Nothing was stored: {error}") from None
        except UnsuitableDatabase as error:
            raise CommandError(f"Nothing was stored: {error}.") from None

    def _show(self, subscription: Subscription) -> None:
        if credential_services.are_unreadable(subscription):
            raise CommandError("None of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored credentials.")
        client = credential_services.shown_oauth2(subscription)
        if client is None:
            self.stdout.write("There is none.")
            return
        for name, value in client._asdict().items():
            if value:
                self.stdout.write(f"{name.replace('_', ' ')}: {value}")
