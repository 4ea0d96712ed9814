"""Whether the triggers in the database are those of the migrations: compares their bodies, not only their names.

So the text of a released trigger may only change in a migration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader

from webhookhub.upgrade.pending import pending, unknown_migrations

from . import vendors
from .triggers import Trigger, declared

REMEDY = "run manage.py create_triggers to create it again"


class WrongTrigger(NamedTuple):
    trigger: Trigger
    is_missing: bool
    remedy: str = REMEDY

    @property
    def message(self) -> str:
        return "the trigger is missing" if self.is_missing else "the trigger differs from the migrations' trigger"


def can_see_triggers(connection: BaseDatabaseWrapper) -> bool:
    """Servers hide triggers from users without the TRIGGER privilege, without an error."""
    return not vendors.is_server(connection) or "TRIGGER" in vendors.held_privileges(connection)


def wrong_triggers(connection: BaseDatabaseWrapper) -> Iterator[WrongTrigger]:
    """Missing and differing triggers; none if this user cannot see them, or if they are those of a newer version."""
    if not can_see_triggers(connection) or unknown_migrations(loader := MigrationLoader(connection)):
        return
    stored = {name: _one_line(sql) for name, sql in vendors.triggers(connection).items()}
    for trigger in declared(without=pending(loader).contract):
        sql = stored.get(trigger.name)
        if sql != _one_line(trigger.create_sql(connection)):
            yield WrongTrigger(trigger, sql is None)


def create_wrong_triggers(connection: BaseDatabaseWrapper) -> list[str]:
    """Creates missing and differing triggers again; returns their names.

    With them all triggers of their tables, because a server runs triggers in the order in which they were created.
    """
    wrong = [problem.trigger for problem in wrong_triggers(connection)]
    tables = {trigger.table for trigger in wrong}
    with connection.cursor() as cursor:
        for trigger in declared():
            if trigger.table in tables:
                cursor.execute(f"DROP TRIGGER IF EXISTS {trigger.name}", None)
                cursor.execute(trigger.create_sql(connection), None)
    return [trigger.name for trigger in wrong]


def _one_line(sql: str) -> str:
    """A dump or a client may break lines elsewhere."""
    return " ".join(sql.split())
