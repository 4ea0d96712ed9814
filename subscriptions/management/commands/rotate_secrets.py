from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions.secrets import reencrypt
from webhookhub.cipher import Undecipherable


class Command(BaseCommand):
    help = "Encrypts every stored secret anew with the first of WEBHOOKHUB_ENCRYPTION_KEYS. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        total = 0
        try:
            for changed in reencrypt():
                total += changed
        except Undecipherable as error:
            raise CommandError(f"{error}; add the key that was used. {total} subscriptions were done before.") from None
        self.stdout.write(f"The secrets of {total} subscriptions are encrypted with the first key.")
