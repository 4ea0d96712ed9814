"""The common base of the commands that set, remove or show a credential of a subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from subscriptions import credential_services
from subscriptions.credentials import InvalidCredentials
from subscriptions.models import Subscription
from webhookhub.db.requirements import UnsuitableDatabase

from .arguments import subscription_or_error


class CredentialCommand(BaseCommand):
    """A subclass adds the options that make a credential, checks them, and stores, removes and reads it."""

    remove_help: str

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("subscription", type=int, help="the subscription's id")
        parser.add_argument("--remove", action="store_true", help=self.remove_help)

    def is_given(self, options: Mapping[str, Any]) -> bool:
        """Whether a credential is to be stored. Raises CommandError for options that do not go together."""
        raise NotImplementedError

    def store(self, subscription: Subscription, options: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def remove(self, subscription: Subscription) -> bool:
        raise NotImplementedError

    def facts(self, subscription: Subscription) -> Mapping[str, Any] | None:
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        subscription = subscription_or_error(options["subscription"])
        is_given = self.is_given(options)
        if options["remove"]:
            self.stdout.write("Removed." if self.remove(subscription) else "There is none.")
            return
        if is_given:
            try:
                self.store(subscription, options)
            except InvalidCredentials as error:
                raise CommandError(f"Nothing was stored: {error}") from None
            except UnsuitableDatabase as error:
                raise CommandError(f"Nothing was stored: {error}.") from None
        self._show(subscription)

    def _show(self, subscription: Subscription) -> None:
        if credential_services.are_unreadable(subscription):
            raise CommandError("None of WEBHOOKHUB_ENCRYPTION_KEYS opens the stored credentials.")
        facts = self.facts(subscription)
        if facts is None:
            self.stdout.write("There is none.")
            return
        for name, value in facts.items():
            if value:
                self.stdout.write(f"{name.replace('_', ' ')}: {value}")
