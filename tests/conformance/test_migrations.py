"""Migrations go back to nothing and forward again, on a database of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from webhookhub.db import vendors

pytestmark = pytest.mark.every_engine

ALIAS = "scratch"


def own_apps() -> list[str]:
    """Those of this project that have migrations."""
    migrated = MigrationLoader(None).migrated_apps
    return [config.label for config in apps.get_app_configs() if "." not in config.name and config.label in migrated]


@pytest.fixture
def scratch(django_db_setup: None, django_db_blocker: Any, tmp_path: Path) -> Iterator[BaseDatabaseWrapper]:
    """Not the tests' own database: what a migration does to it cannot be undone by a rollback."""
    default = connection.settings_dict
    name = f"{default['NAME']}_scratch" if vendors.is_server(connection) else str(tmp_path / "scratch.sqlite3")
    connections.databases[ALIAS] = {**default, "NAME": name}
    with django_db_blocker.unblock():
        make_anew(name)
        try:
            yield connections[ALIAS]
        finally:
            connections[ALIAS].close()
            drop(name)
            connection.close()
            del connections[ALIAS], connections.databases[ALIAS]


def make_anew(name: str) -> None:
    if vendors.is_server(connection):
        drop(name)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")


def drop(name: str) -> None:
    if vendors.is_server(connection):
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def migrate(scratch: BaseDatabaseWrapper, targets: list[tuple[str, str | None]]) -> None:
    MigrationExecutor(scratch).migrate(targets)


def forward(scratch: BaseDatabaseWrapper) -> None:
    executor = MigrationExecutor(scratch)
    executor.migrate([node for node in executor.loader.graph.leaf_nodes() if node[0] in own_apps()])


def schema(scratch: BaseDatabaseWrapper) -> dict[str, Any]:
    """Tables with their columns, keys and checks, and the triggers."""
    with scratch.cursor() as cursor:
        tables = {
            table: (
                [
                    (column[0], column[1], column[3])
                    for column in scratch.introspection.get_table_description(cursor, table)
                ],
                scratch.introspection.get_constraints(cursor, table),
            )
            for table in scratch.introspection.table_names(cursor)
        }
        if vendors.is_server(scratch):
            cursor.execute(
                "SELECT trigger_name, action_statement FROM information_schema.triggers "
                "WHERE trigger_schema = DATABASE() ORDER BY 1"
            )
        else:
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY 1")
        return {**tables, "triggers": cursor.fetchall()}


def test_all_apps_migrate_back_to_nothing_and_forward_again(scratch):
    forward(scratch)
    whole = schema(scratch)
    assert whole["triggers"]

    migrate(scratch, [(app, None) for app in own_apps()])
    left = schema(scratch)
    assert not left.pop("triggers")
    assert set(left) == {"django_migrations"}

    forward(scratch)
    assert schema(scratch) == whole
