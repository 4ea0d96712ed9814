from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from webhookhub.db import trigger_check
from webhookhub.db.requirements import UnsuitableDatabase, require_migrated
from webhookhub.upgrade.pending import unknown_migrations


class Command(BaseCommand):
    help = "Creates triggers again that are missing or differ from those of the migrations. Stop all processes first."
    # The checks report what this command repairs.
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            require_migrated()
        except UnsuitableDatabase as error:
            raise CommandError(str(error)) from None
        if unknown := unknown_migrations(MigrationLoader(connection)):
            app, name = unknown[0]
            raise CommandError(f"A newer version has migrated this database ({app}.{name}): use that version.")
        if not trigger_check.can_see_triggers(connection):
            raise CommandError("This database user cannot see triggers; use the user that migrates.")
        created = trigger_check.create_wrong_triggers(connection)
        self.stdout.write(f"Created {', '.join(created)}." if created else "All triggers are those of the migrations.")
