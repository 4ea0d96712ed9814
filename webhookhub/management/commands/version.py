import platform
from typing import Any

import django
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from webhookhub import __version__
from webhookhub.db import vendors
from webhookhub.upgrade.pending import own_apps, unknown_migrations
from webhookhub.upgrade.processes import running_versions


class Command(BaseCommand):
    help = "Prints the versions of the hub, of the database and of the running loops, and which migrations are applied."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        # First, because it is known without a database.
        self._line("hub", __version__)
        self._line("python", f"{platform.python_version()}, Django {django.get_version()}")
        connection.ensure_connection()
        self._line("database", vendors.server_name(connection))
        loader = MigrationLoader(connection)
        own = own_apps()
        applied = {key for key in loader.applied_migrations if key[0] in own}
        missing = sorted(key for key in loader.disk_migrations if key[0] in own and key not in applied)
        names = _names(missing) if applied else ""
        self._line("migrations", f"{len(applied)} applied, {len(missing)} not applied{names}")
        if unknown := unknown_migrations(loader):
            self._line("", f"{len(unknown)} of a newer version{_names(unknown)}")
        versions = sorted(running_versions().items())
        self._line("loops", ", ".join(f"{count} of {version}" for version, count in versions) or "none running")

    def _line(self, name: str, text: str) -> None:
        self.stdout.write(f"{name:<12}{text}")


def _names(keys: list[tuple[str, str]]) -> str:
    return "".join(f"\n{'':<14}{app}.{name}" for app, name in keys)
