"""Migrates the demo's database and detects one that was created by another version of the hub.

Migrations are rewritten before the first release. An older database may have applied migrations that no longer exist,
or lack columns that the current ones would create.
"""

from __future__ import annotations

import re

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.exceptions import InconsistentMigrationHistory

# Errors about an existing or missing table, column or index.
SCHEMA_ERROR = re.compile(
    r"already exists|duplicate (column|key) name|no such (table|column|index)|unknown column", re.I
)


def migrate() -> None:
    """Raises SystemExit with a message if another version created the database."""
    try:
        call_command("migrate", verbosity=0)
    except InconsistentMigrationHistory as error:
        raise _outdated(str(error)) from None
    except DatabaseError as error:
        if not SCHEMA_ERROR.search(str(error)):
            raise
        raise _outdated(str(error)) from None
    if missing := _missing():
        raise _outdated(missing[0])


def _outdated(why: str) -> SystemExit:
    if settings.EMBEDDED:
        advice = "run `make clean`, which removes it with all its data, and try again"
    else:
        advice = "set DATABASE_URL to an empty database"
    return SystemExit(f"The database was created by another version of the hub ({' '.join(why.split())}): {advice}.")


def _missing() -> list[str]:
    """Tables and columns of the models that the migrated database does not have."""
    missing = []
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        for model in apps.get_models():
            table = model._meta.db_table
            if table not in tables:
                missing.append(f"table {table} is missing")
                continue
            existing = {column.name for column in connection.introspection.get_table_description(cursor, table)}
            columns = [field.column for field in model._meta.local_concrete_fields]
            missing += [f"column {column} of table {table} is missing" for column in columns if column not in existing]
    return missing
