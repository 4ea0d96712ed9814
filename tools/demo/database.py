"""The demo's database, brought up to date; one that another version has made, and that cannot be, is told from others.

While nothing is released, migrations are rewritten: a database may have taken some that are no more, and lack what
those that are left believe to be there.
"""

from __future__ import annotations

import re

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.exceptions import InconsistentMigrationHistory

# What a database says of a table, a column or an index that is there already, or is not: nothing about its own health.
OTHERWISE = re.compile(r"already exists|duplicate (column|key) name|no such (table|column|index)|unknown column", re.I)


def migrate() -> None:
    """SystemExit with one line of advice if another version has made it; any other fault is raised as it is."""
    try:
        call_command("migrate", verbosity=0)
    except InconsistentMigrationHistory as error:
        raise _outdated(str(error)) from None
    except DatabaseError as error:
        if not OTHERWISE.search(str(error)):
            raise
        raise _outdated(str(error)) from None
    if lacking := _lacking():
        raise _outdated(lacking[0])


def _outdated(why: str) -> SystemExit:
    if settings.EMBEDDED:
        advice = "`make clean` removes it, with all its data; then run this again"
    else:
        advice = "give another, empty one in DATABASE_URL"
    return SystemExit(f"The database was made by another version of the hub ({' '.join(why.split())}): {advice}.")


def _lacking() -> list[str]:
    """What it should have after all its migrations."""
    lacking = []
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        for model in apps.get_models():
            table = model._meta.db_table
            if table not in tables:
                lacking.append(f"there is no table {table}")
                continue
            there = {column.name for column in connection.introspection.get_table_description(cursor, table)}
            wanted = [field.column for field in model._meta.local_concrete_fields]
            lacking += [f"{table} has no column {column}" for column in wanted if column not in there]
    return lacking
