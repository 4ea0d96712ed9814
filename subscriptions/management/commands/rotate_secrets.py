from typing import Any

from django.core.management.base import BaseCommand, CommandError

from subscriptions.reencryption import reencrypt


class Command(BaseCommand):
    help = "Encrypts every stored secret anew with the first of WEBHOOKHUB_ENCRYPTION_KEYS. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        outcome = reencrypt()
        self.stdout.write(f"The secrets of {outcome.done} subscriptions are encrypted with the first key.")
        faults = []
        if outcome.unopened:
            faults.append(
                f"None of WEBHOOKHUB_ENCRYPTION_KEYS opens the secrets of subscriptions {_listed(outcome.unopened)}; "
                "add the key that was used."
            )
        if outcome.restless:
            faults.append(f"Subscriptions {_listed(outcome.restless)} kept changing; repeat the command.")
        if faults:
            raise CommandError(" ".join(faults))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
