from typing import Any

from django.core.management.base import BaseCommand

from webhookhub.cipher import new_key


class Command(BaseCommand):
    help = "Makes a key for WEBHOOKHUB_ENCRYPTION_KEYS."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(new_key())
