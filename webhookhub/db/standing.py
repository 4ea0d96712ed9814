"""Whether the database can hold what the hub promises: asked by `manage.py check --database default` and at the
start of every loop. Some engines accept the words and drop the lock, so locks are tried and not believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from . import grants, vendors
from .errors import UnfitDatabase
from .triggers import CreateTriggers, declared


@dataclass(frozen=True)
class Fault:
    id: str
    message: str
    hint: str


def faults() -> list[Fault]:
    """What is wrong with the server and this connection to it, before any table is looked at."""
    return list(vendors.connection_faults(connection, _own_tables()))


def trigger_faults() -> list[Fault]:
    """Why `migrate` would fail at the triggers, if it has any to create."""
    if not vendors.distrusts_trigger_creators(connection) or not _triggers_to_come():
        return []
    held = grants.held_by_me(connection).privileges
    if any(each.object == grants.EVERYTHING and each.name in ("SUPER", grants.ALL) for each in held):
        return []
    return [
        Fault(
            "webhookhub.E020",
            "the server writes a binary log and lets only SUPER create triggers, a privilege that this user lacks",
            "set log_bin_trust_function_creators = 1 on the server, or migrate with a user that has SUPER",
        )
    ]


def require(probe_table: str, probe_column: str, probe_value: str) -> None:
    """UnfitDatabase unless the database is fit, migrated, and skips a row that is locked.

    The probe row is one that this process owns and nobody else waits for.
    """
    found = [*_unapplied(), *faults(), *_triggers(), *_skip_locked(probe_table, probe_column, probe_value)]
    if found:
        raise UnfitDatabase("; ".join(f"{fault.message} ({fault.hint})" for fault in found))


def require_migrated() -> None:
    found = list(_unapplied())
    if found:
        raise UnfitDatabase(f"{found[0].message} ({found[0].hint})")


def _own_tables() -> list[str]:
    from django.conf import settings

    labels = {label for label in settings.INSTALLED_APPS if "." not in label}
    return [model._meta.db_table for model in apps.get_models() if model._meta.app_label in labels]


def _plan() -> list[Any]:
    vendors.require_readable(connection, MigrationRecorder.Migration._meta.db_table)
    executor = MigrationExecutor(connection)
    return [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def _triggers_to_come() -> bool:
    return any(isinstance(operation, CreateTriggers) for migration in _plan() for operation in migration.operations)


def _unapplied() -> Iterator[Fault]:
    plan = _plan()
    if plan:
        first = plan[0]
        yield Fault(
            "webhookhub.E014",
            f"{len(plan)} migrations are not applied, {first.app_label}.{first.name} the first of them",
            "run manage.py migrate",
        )


def _triggers() -> Iterator[Fault]:
    """A dump restored without its triggers would route nothing and protect nothing, and not say so."""
    present = vendors.triggers(connection)
    if present is None:
        return  # this user may not see them
    missing = sorted(trigger.name for trigger in declared() if (trigger.table, trigger.name) not in present)
    if missing:
        yield Fault(
            "webhookhub.E017",
            f"the database lacks the trigger {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else ""),
            "restore them: they are part of the schema (a dump must hold them too)",
        )


def _skip_locked(table: str, column: str, value: str) -> Iterator[Fault]:
    if not vendors.is_server(connection):
        return  # one writer at a time: a claim holds the write lock before it reads
    other = connection.copy()
    try:
        if not skips_locked_rows(connection, other, table, column, value):
            yield Fault(
                "webhookhub.E015",
                "SELECT … FOR UPDATE SKIP LOCKED returns rows that another connection has locked",
                f"use {vendors.SUPPORTED}; some compatible engines accept the words only",
            )
    finally:
        other.close()


def skips_locked_rows(
    holder: BaseDatabaseWrapper, seeker: BaseDatabaseWrapper, table: str, column: str, value: str
) -> bool:
    sql = f"SELECT {column} FROM {table} WHERE {column} = %s FOR UPDATE"  # noqa: S608
    holder.set_autocommit(False)
    seeker.set_autocommit(False)
    try:
        with holder.cursor() as cursor:
            cursor.execute(sql, [value])
            held = cursor.fetchall()
        with seeker.cursor() as cursor:
            cursor.execute(f"{sql} SKIP LOCKED", [value])
            seen = cursor.fetchall()
        return len(held) == 1 and not seen
    finally:
        for each in (holder, seeker):
            each.rollback()
            each.set_autocommit(True)
