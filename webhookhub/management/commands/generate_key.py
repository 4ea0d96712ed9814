"""Prints a new key for WEBHOOKHUB_ENCRYPTION_KEYS."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from webhookhub import crypto


class Command(BaseCommand):
    help = "Print a new key for WEBHOOKHUB_ENCRYPTION_KEYS. Needs no settings and no database."
    requires_system_checks: list[str] = []

    def handle(self, **options: Any) -> None:
        self.stdout.write(crypto.new_key())
