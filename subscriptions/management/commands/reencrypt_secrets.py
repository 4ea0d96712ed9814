from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions.reencryption import reencrypt
from webhookhub import crypto
from webhookhub.accounts import second_factor


class Command(BaseCommand):
    help = "Encrypts all stored secrets with the first of WEBHOOKHUB_ENCRYPTION_KEYS. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        result = reencrypt()
        self.stdout.write(f"The secrets of {result.done} endpoints are encrypted with the first key.")
        errors = []
        if result.undecryptable:
            errors.append(
                "None of WEBHOOKHUB_ENCRYPTION_KEYS opens the secrets of endpoints "
                f"{', '.join(map(str, result.undecryptable))}; add the key that was used."
            )
        if result.changing:
            errors.append(f"Endpoints {', '.join(map(str, result.changing))} kept changing; repeat the command.")
        try:
            second_factor.reencrypt()
        except crypto.Undecipherable:
            errors.append("None of WEBHOOKHUB_ENCRYPTION_KEYS opens the secret of an authenticator app; add that key.")
        if errors:
            raise CommandError(" ".join(errors))
