"""Whether the triggers in the database are those that the migrations make: by their text, for a name guards nothing.

So the text of a trigger that was once released changes by a migration only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.migration import Migration

from . import grants, vendors
from .triggers import Trigger, by_migration


@dataclass(frozen=True)
class Broken:
    trigger: Trigger
    is_missing: bool
    remedy: str

    @property
    def message(self) -> str:
        return "the trigger is missing" if self.is_missing else "the trigger is another one than the migrations make"


def visible(connection: BaseDatabaseWrapper) -> bool:
    """Servers show all triggers only to those who may make them, and to others some or none, without a word."""
    if not vendors.is_server(connection):
        return True
    return grants.may(grants.held_by_me(connection), "TRIGGER", connection.settings_dict["NAME"])


def broken(connection: BaseDatabaseWrapper) -> Iterator[Broken]:
    """Those that are missing or do something else; none if this user may not see them."""
    if not visible(connection):
        return
    stored = {name: _one_line(sql) for name, sql in vendors.triggers(connection).items()}
    for migration, triggers in by_migration():
        for trigger in triggers:
            found = stored.get(trigger.name)
            if found != _one_line(trigger.create_sql(connection)):
                yield Broken(trigger, found is None, _remedy(migration))


def _remedy(migration: Migration) -> str:
    before = next((name for app, name in migration.dependencies if app == migration.app_label), "zero")
    return (
        f"with all processes stopped, go back and forth: manage.py migrate {migration.app_label} {before}, "
        "then manage.py migrate"
    )


def _one_line(sql: str) -> str:
    """A dump or a client may break lines elsewhere."""
    return " ".join(sql.split())
