"""Whether the triggers in the database are those of the migrations: compares their bodies, not only their names.

So the text of a released trigger may only change in a migration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.migration import Migration

from . import vendors
from .triggers import Trigger, by_migration


class WrongTrigger(NamedTuple):
    trigger: Trigger
    is_missing: bool
    remedy: str

    @property
    def message(self) -> str:
        return "the trigger is missing" if self.is_missing else "the trigger differs from the migrations' trigger"


def can_see_triggers(connection: BaseDatabaseWrapper) -> bool:
    """Servers hide triggers from users without the TRIGGER privilege, without an error."""
    return not vendors.is_server(connection) or "TRIGGER" in vendors.held_privileges(connection)


def wrong_triggers(connection: BaseDatabaseWrapper) -> Iterator[WrongTrigger]:
    """Missing and differing triggers; none if this user cannot see them."""
    if not can_see_triggers(connection):
        return
    stored = {name: _one_line(sql) for name, sql in vendors.triggers(connection).items()}
    last = {trigger.name: (trigger, migration) for migration, triggers in by_migration() for trigger in triggers}
    for trigger, migration in last.values():
        sql = stored.get(trigger.name)
        if sql != _one_line(trigger.create_sql(connection)):
            yield WrongTrigger(trigger, sql is None, _remedy(migration))


def _remedy(migration: Migration) -> str:
    before = next((name for app, name in migration.dependencies if app == migration.app_label), "zero")
    return (
        f"stop all processes, then run manage.py migrate {migration.app_label} {before} and manage.py migrate to "
        "create it again"
    )


def _one_line(sql: str) -> str:
    """A dump or a client may break lines elsewhere."""
    return " ".join(sql.split())
