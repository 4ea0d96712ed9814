"""Whether the database has what the hub relies on: checked by `manage.py check --database default` and when a loop
starts. Some engines accept SKIP LOCKED and ignore it, so it is tried out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder

from webhookhub.upgrade.pending import pending

from . import trigger_check, vendors
from .errors import Kind, kind_of
from .triggers import Trigger, made_by


class UnsuitableDatabase(Exception):
    """The database does not meet a requirement; the message says which, and how to fix it."""


class Problem(NamedTuple):
    id: str
    message: str
    hint: str


def server_problems(alias: str = DEFAULT_DB_ALIAS) -> list[Problem]:
    """Problems of the server and of this connection, independent of the migrations."""
    return [Problem(*problem) for problem in vendors.connection_problems(connections[alias], _own_tables())]


def migration_problems() -> Iterator[Problem]:
    """Reasons why `migrate` would fail at the triggers that it has to create."""
    tables = sorted({trigger.table for trigger in _triggers_to_create()})
    if not tables or not vendors.is_server(connection):
        return
    held = vendors.held_privileges(connection)
    if "TRIGGER" not in held:
        yield Problem(
            "webhookhub.E021",
            f"there are triggers to create (on {', '.join(tables)}), and this user lacks the TRIGGER privilege",
            f"GRANT TRIGGER ON `{connection.settings_dict['NAME']}`.* TO this user, or migrate with one that has it",
        )
    if "SUPER" not in held and vendors.distrusts_trigger_creators(connection):
        yield Problem(
            "webhookhub.E020",
            "the server writes a binary log and lets only SUPER create triggers, a privilege that this user lacks",
            "set log_bin_trust_function_creators = 1 on the server, or migrate with a user that has SUPER",
        )


def trigger_problems() -> list[Problem]:
    """Problems of the triggers of a migrated database; none for a database that is not migrated yet."""
    return [] if _plan_if_readable() != [] else list(_wrong_triggers())


def require(process: str) -> None:
    """Raises UnsuitableDatabase unless the database is suitable, migrated, and skips a locked row.

    The row that is locked is this process's own; no other process waits for it.
    """
    problems = [*_unapplied(), *server_problems(), *_wrong_triggers(), *_skip_locked(process)]
    if problems:
        raise UnsuitableDatabase("; ".join(f"{problem.message} ({problem.hint})" for problem in problems))


def require_migrated() -> None:
    for problem in _unapplied():
        raise UnsuitableDatabase(f"{problem.message} ({problem.hint})")


def _own_tables() -> list[str]:
    labels = {label for label in settings.INSTALLED_APPS if "." not in label}
    return [model._meta.db_table for model in apps.get_models() if model._meta.app_label in labels]


def _plan() -> list[Migration]:
    """Without migrations to contract: processes run before and after them."""
    vendors.require_readable(connection, MigrationRecorder.Migration._meta.db_table)
    missing = pending()
    return [*missing.expand, *missing.blocked]


def _plan_if_readable() -> list[Migration] | None:
    """None for a user that may not read the migrations, and so may not migrate either."""
    try:
        return _plan()
    except DatabaseError as error:
        if kind_of(error) is not Kind.DENIED:
            raise
        return None


def _triggers_to_create() -> list[Trigger]:
    return [trigger for migration in _plan_if_readable() or [] for trigger in made_by(migration)]


def _unapplied() -> Iterator[Problem]:
    if plan := _plan():
        yield Problem(
            "webhookhub.E014",
            f"{len(plan)} migrations are not applied, starting with {plan[0].app_label}.{plan[0].name}",
            "run manage.py upgrade",
        )


def _wrong_triggers() -> Iterator[Problem]:
    """A dump restored without its triggers would route nothing and protect nothing, without an error."""
    wrong = list(trigger_check.wrong_triggers(connection))
    missing = [trigger for trigger in wrong if trigger.is_missing]
    different = [trigger for trigger in wrong if not trigger.is_missing]
    if missing:
        yield Problem("webhookhub.E017", f"the database lacks the trigger {_first(missing)}", missing[0].remedy)
    if different:
        yield Problem(
            "webhookhub.E018",
            f"the database has another trigger than the migrations under the name {_first(different)}",
            different[0].remedy,
        )


def _first(wrong: list[trigger_check.WrongTrigger]) -> str:
    more = f" and {len(wrong) - 1} more" if wrong[1:] else ""
    return f"{wrong[0].trigger.name}{more}"


def _skip_locked(process: str) -> Iterator[Problem]:
    if not vendors.is_server(connection):
        return  # the embedded database has one writer, which takes the write lock before it reads
    other = connection.copy()
    try:
        if not skips_locked_rows(connection, other, process):
            yield Problem(
                "webhookhub.E015",
                "SELECT … FOR UPDATE SKIP LOCKED returns rows that another connection has locked",
                f"use {vendors.SUPPORTED}; some compatible engines accept the words and ignore them",
            )
    finally:
        other.close()


def skips_locked_rows(holder: BaseDatabaseWrapper, seeker: BaseDatabaseWrapper, process: str) -> bool:
    sql = "SELECT name FROM hub_processes WHERE name = %s FOR UPDATE"
    holder.set_autocommit(False)
    seeker.set_autocommit(False)
    try:
        with holder.cursor() as cursor:
            cursor.execute(sql, [process])
            held = cursor.fetchall()
        with seeker.cursor() as cursor:
            cursor.execute(f"{sql} SKIP LOCKED", [process])
            seen = cursor.fetchall()
        return len(held) == 1 and not seen
    finally:
        for one in (holder, seeker):
            one.rollback()
            one.set_autocommit(True)
