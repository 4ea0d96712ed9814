"""What `migrate` would do, in words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from webhookhub.db import vendors
from webhookhub.db.batches import InBatches
from webhookhub.db.triggers import CreateTriggers

from .rules import flat, table_of


class Statement(NamedTuple):
    sql: str
    how: str


class Planned(NamedTuple):
    """`rows`: an estimate for each table that exists and is changed."""

    migration: Migration
    about: str
    operations: list[str]
    rows: dict[str, int]
    statements: list[Statement]


def planned(loader: MigrationLoader, migration: Migration) -> Planned:
    key = (migration.app_label, migration.name)
    tables = _tables(migration, loader.project_state(key, at_end=False))
    return Planned(
        migration,
        (sys.modules[type(migration).__module__].__doc__ or "").strip().partition("\n\n")[0],
        [operation.describe() for operation in flat(migration.operations)],
        vendors.estimated_rows(connection, tables) if tables else {},
        [*_collected(loader, migration), *_in_batches(migration)],
    )


def _tables(migration: Migration, state: ProjectState) -> Sequence[str]:
    tables: dict[str, None] = {}
    for operation in flat(migration.operations):
        tables.update(dict.fromkeys(_tables_of(operation, migration.app_label, state)))
        operation.state_forwards(migration.app_label, state)
    return list(filter(None, tables))


def _tables_of(operation: Operation, app_label: str, state: ProjectState) -> list[str]:
    if isinstance(operation, CreateTriggers):
        return [trigger.table for trigger in operation.triggers]
    return [table_of(operation, app_label, state)]


def _collected(loader: MigrationLoader, migration: Migration) -> list[Statement]:
    state = loader.project_state((migration.app_label, migration.name), at_end=False)
    with connection.schema_editor(collect_sql=True, atomic=migration.atomic) as editor:
        migration.apply(state, editor, collect_sql=True)
    statements = [" ".join(sql.split()) for sql in editor.collected_sql if not sql.startswith("--")]
    return [Statement(sql, vendors.how_it_changes(connection, sql)) for sql in statements]


def _in_batches(migration: Migration) -> list[Statement]:
    return [
        Statement(operation.statement, f"{operation.size} rows at a time, each batch in its own transaction")
        for operation in flat(migration.operations)
        if isinstance(operation, InBatches)
    ]
