from typing import Any

from django.core.management.commands import migrate

from webhookhub.db.timeouts import long_statements


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        with long_statements(options["database"]):
            super().handle(*args, **options)
