"""What a migration may do, so that a hub can be upgraded while it runs.

A process of the version before works while a migration is applied and afterwards, except for one that says `contract =
True`, which is applied when no such process is left. And no migration may lock a table that grows with every event for
longer than a second, however many rows it has. Servers check the second rule, too: see db/server/schema.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import models
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.expressions import Value

from webhookhub.db.batches import InBatches
from webhookhub.db.growing import GROWING
from webhookhub.db.triggers import CreateTriggers

from .pending import Key, is_contract, own_apps

# The last migrations of version 0.1.0: the rules are for the later ones.
BASELINE = {
    "accounts": "0001_initial",
    "api": "0003_customers",
    "auditlog": "0002_triggers",
    "deadletters": "0003_customers",
    "events": "0005_customers",
    "jobs": "0002_triggers",
    "sagas": "0003_customers",
    "stats": "0001_initial",
    "subscriptions": "0005_credentials",
    "webhookhub": "0001_initial",
    "workflows": "0002_triggers",
}
ALWAYS_ALLOWED = (
    operations.AlterModelOptions,
    operations.AlterModelManagers,
    operations.RemoveConstraint,
    CreateTriggers,
    InBatches,
)
# The version before names these columns, tables and indexes in its statements.
NEEDED_BY_BEFORE = (
    operations.RemoveField,
    operations.RenameField,
    operations.DeleteModel,
    operations.RenameModel,
    operations.AlterModelTable,
    operations.RemoveIndex,
    operations.RenameIndex,
)


def baseline(loader: MigrationLoader) -> set[Key]:
    """All migrations of version 0.1.0."""
    return {key for leaf in BASELINE.items() for key in loader.graph.forwards_plan(leaf)}


def problems(loader: MigrationLoader) -> list[str]:
    """Of all migrations after the baseline."""
    before, own = baseline(loader), own_apps()
    found = []
    for key, migration in sorted(loader.disk_migrations.items()):
        if key[0] in own and key not in before:
            state = loader.project_state(key, at_end=False)
            found += [f"{migration}: {problem}" for problem in problems_of(migration, state)]
    return found


def problems_of(migration: Migration, state: ProjectState) -> Iterator[str]:
    """`state`: before the migration. Tables that it creates are empty, and the version before does not know them."""
    new_tables: set[str] = set()
    new_fields: set[tuple[str, str]] = set()
    for operation in flat(migration.operations):
        table = table_of(operation, migration.app_label, state)
        if isinstance(operation, operations.CreateModel):
            new_tables.add(table)
        if table not in new_tables:
            for problem in _Rule(migration, operation, state, new_fields).problems():
                yield f"{operation.describe()}: {problem}"
        if isinstance(operation, operations.AddField):
            new_fields.add((operation.model_name_lower, operation.name))
        operation.state_forwards(migration.app_label, state)


def flat(found: Sequence[Operation]) -> Iterator[Operation]:
    """The operations that change the database."""
    for operation in found:
        if isinstance(operation, operations.SeparateDatabaseAndState):
            yield from flat(operation.database_operations)
        else:
            yield operation


def table_of(operation: Operation, app_label: str, state: ProjectState) -> str:
    """The table that an operation on a model or field changes; empty for others."""
    if isinstance(operation, InBatches):
        return operation.table
    name = getattr(operation, "model_name", None) or getattr(operation, "name", None)
    if not isinstance(name, str):
        return ""
    if isinstance(operation, operations.CreateModel):
        return str(operation.options.get("db_table", f"{app_label}_{name.lower()}"))
    model = state.models.get((app_label, name.lower()))
    return "" if model is None else str(model.options.get("db_table", f"{app_label}_{name.lower()}"))


class _Rule:
    def __init__(
        self, migration: Migration, operation: Operation, state: ProjectState, new_fields: set[tuple[str, str]]
    ) -> None:
        self._operation: Any = operation
        self._state = state
        self._app = migration.app_label
        self._new_fields = new_fields
        self._is_contract = is_contract(migration)
        self._table = table_of(operation, migration.app_label, state)
        self._is_growing = self._table in GROWING

    def problems(self) -> Iterator[str]:
        operation = self._operation
        if isinstance(operation, ALWAYS_ALLOWED):
            return
        if isinstance(operation, NEEDED_BY_BEFORE):
            yield from self._needs_contract("the version before may use it")
        elif isinstance(operation, operations.AlterField):
            yield from self._altered(operation)
        elif isinstance(operation, operations.AddField):
            yield from self._added_field(operation.field)
        elif isinstance(operation, operations.AddIndex):
            if self._is_growing and operation.index.expressions:
                yield f"an index on an expression locks {self._table}; add a column and index that"
        elif isinstance(operation, operations.AddConstraint):
            yield from self._added_constraint(self._operation.constraint)
        elif isinstance(operation, operations.RunPython):
            if any(table in GROWING for table in self._tables_of_app()):
                yield "it may lock many rows of a table that grows with every event; use InBatches"
        elif isinstance(operation, operations.RunSQL):
            yield from self._sql(operation)
        else:
            yield (
                "not known to be safe; use AddField, AddIndex, triggers, InBatches, RunSQL or RunPython on tables that "
                "stay small, or add a rule for it"
            )

    def _needs_contract(self, reason: str) -> Iterator[str]:
        if not self._is_contract:
            yield f"{reason}; do it in a later version, in a migration with `contract = True`"

    def _altered(self, operation: operations.AlterField) -> Iterator[str]:
        model = self._state.models[self._app, operation.model_name_lower]
        old, new = _column(model.get_field(operation.name)), _column(operation.field)
        if old == new:
            return
        if self._is_growing:
            yield f"a changed column copies {self._table}; add another column"
        elif not _accepts_more(old, new):
            yield from self._needs_contract("the version before may write what the changed column refuses")

    def _added_field(self, field: Any) -> Iterator[str]:
        if field.many_to_many:
            return
        if not field.null and not field.has_db_default() and not field.generated:
            yield "the version before inserts rows without it; give it null=True or a db_default"
        if not self._is_growing:
            return
        if field.generated and field.db_persist:
            yield f"a stored generated column copies {self._table}"
        if field.has_db_default() and not isinstance(field._db_default_expression, Value):
            yield f"a default that is computed copies {self._table}; use a constant"
        if field.unique:
            yield f"a unique column locks {self._table}"
        if field.remote_field and field.db_constraint:
            yield f"a foreign key locks {self._table}; use db_constraint=False"

    def _added_constraint(self, constraint: models.BaseConstraint) -> Iterator[str]:
        if self._is_growing and not isinstance(constraint, models.UniqueConstraint):
            yield f"the server checks all rows of {self._table} for it; check new rows with a trigger"
        elif not self._is_about_new_columns(constraint):
            yield from self._needs_contract("the version before may write rows that violate it")

    def _is_about_new_columns(self, constraint: models.BaseConstraint) -> bool:
        """A key with a new column, or a check of new columns only."""
        model = self._operation.model_name_lower
        if isinstance(constraint, models.UniqueConstraint):
            return any((model, name) in self._new_fields for name in constraint.fields)
        names = _names(getattr(constraint, "condition", None))
        return bool(names) and all((model, name) in self._new_fields for name in names)

    def _tables_of_app(self) -> set[str]:
        models_of_app = [model for (app, _), model in self._state.models.items() if app == self._app]
        return {str(model.options.get("db_table", "")) for model in models_of_app}

    def _sql(self, operation: operations.RunSQL) -> Iterator[str]:
        words = set(str(operation.sql).replace("`", " ").replace(".", " ").split())
        for table in sorted(GROWING & words):
            yield f"it may lock many rows of {table}; use InBatches"


def _column(field: Any) -> dict[str, Any]:
    """What the database knows of a field."""
    path, arguments, options = field.deconstruct()[1:]
    known = {name: value for name, value in options.items() if name not in (*field.non_db_attrs, "default")}
    return {"class": path, "arguments": arguments, **known}


def _accepts_more(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether the changed column accepts everything that the old one did."""
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    harmless = {"unique", "null", "max_length", "db_default", "db_index"}
    return (
        changed <= harmless
        and not new.get("unique")
        and (bool(new.get("null")) or not old.get("null"))
        and (new.get("max_length") or 0) >= (old.get("max_length") or 0)
        and ("db_default" in new or "db_default" not in old)
    )


def _names(condition: Any) -> list[str]:
    """The fields of a Q object."""
    if not isinstance(condition, models.Q):
        return []
    found: list[str] = []
    for child in condition.children:
        if isinstance(child, tuple):
            found.append(str(child[0]).partition("__")[0])
        else:
            found += _names(child)
    return found
