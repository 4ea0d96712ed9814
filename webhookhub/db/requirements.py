"""Whether the database can hold what the hub promises: asked by `manage.py check --database default` and at the
start of every loop. Some engines accept the words and drop the lock, so locks are tried and not believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from . import grants, trigger_check, vendors
from .errors import UnfitDatabase
from .triggers import Trigger, made_by


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
    if not vendors.is_server(connection):
        return []
    held = grants.held_by_me(connection)
    return [*_may_not_create_triggers(held), *_is_distrusted(held)]


def broken_triggers() -> list[Fault]:
    """What is wrong with the triggers of a database that is migrated; of another one nothing is expected yet."""
    return [] if _plan_if_readable() != [] else list(_triggers())


def _may_not_create_triggers(held: grants.Held) -> Iterator[Fault]:
    database = connection.settings_dict["NAME"]
    if grants.may(held, "TRIGGER", database):
        return
    tables = sorted({trigger.table for trigger in _triggers_to_come()})
    refused = [table for table in tables if not grants.may(held, "TRIGGER", database, table)]
    if refused:
        yield Fault(
            "webhookhub.E021",
            f"there are triggers to create (on {', '.join(refused)}), and this user lacks the TRIGGER privilege",
            f"GRANT TRIGGER ON `{database}`.* TO {grants.me(connection)}, or migrate with a user that has it",
        )


def _is_distrusted(held: grants.Held) -> Iterator[Fault]:
    if not vendors.distrusts_trigger_creators(connection) or not _triggers_to_come():
        return
    if not any(each.object == grants.EVERYTHING and each.name in ("SUPER", grants.ALL) for each in held.privileges):
        yield Fault(
            "webhookhub.E020",
            "the server writes a binary log and lets only SUPER create triggers, a privilege that this user lacks",
            "set log_bin_trust_function_creators = 1 on the server, or migrate with a user that has SUPER",
        )


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


def _plan_if_readable() -> list[Any] | None:
    """None for a user that may not know, and hence not migrate either."""
    try:
        return _plan()
    except DatabaseError as error:
        if not vendors.is_denied(error):
            raise
        return None


def _triggers_to_come() -> list[Trigger]:
    return [trigger for migration in _plan_if_readable() or [] for trigger in made_by(migration)]


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
    broken = list(trigger_check.broken(connection))
    missing = [each for each in broken if each.is_missing]
    others = [each for each in broken if not each.is_missing]
    if missing:
        yield Fault("webhookhub.E017", f"the database lacks the trigger {_first(missing)}", missing[0].remedy)
    if others:
        yield Fault(
            "webhookhub.E018",
            f"something else than the migrations make bears the name of the trigger {_first(others)}",
            others[0].remedy,
        )


def _first(broken: list[trigger_check.Broken]) -> str:
    more = f" and {len(broken) - 1} more" if broken[1:] else ""
    return f"{broken[0].trigger.name}{more}"


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
