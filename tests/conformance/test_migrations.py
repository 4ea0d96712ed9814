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

from webhookhub import crypto
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


URL = "https://example.com/hook"
SHARED, OWN = "one secret", "another secret"


def subscribe(scratch: BaseDatabaseWrapper, event_type: str, plain: str, **values: Any) -> int:
    row = {
        "event_type": event_type,
        "callback_url": URL,
        "customer_key": "",
        "active": True,
        "verified": False,
        "verification_result": "",
        "signing_scheme": "v1",
        "secret": crypto.encrypt(plain),
        "previous_secret": "",
        "custom_headers": "",
        "description": "",
        **values,
    }
    with scratch.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO subscriptions ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", list(row.values())
        )
        return int(cursor.lastrowid)


def test_stored_subscriptions_get_their_endpoints(scratch: BaseDatabaseWrapper):
    """Those with the same settings and secret share one; health, and each signature, stay as they are."""
    forward(scratch)
    before_endpoints = [("deadletters", "0003_customers"), ("sagas", "0003_customers")]
    migrate(scratch, [*before_endpoints, ("subscriptions", "0005_credentials")])
    first = subscribe(scratch, "a", SHARED)
    second = subscribe(scratch, "b", SHARED)
    other_secret = subscribe(scratch, "c", OWN)
    other_limit = subscribe(scratch, "d", SHARED, rate_limit=3)
    customers = subscribe(scratch, "e", SHARED, customer_key="acme")
    unreadable = subscribe(scratch, "f", "", secret="of another key")
    with scratch.cursor() as cursor:
        cursor.execute(
            "INSERT INTO endpoint_health (callback_url, failing_since, last_error_code, disabled_at, updated_at) "
            f"VALUES ('{URL}', '2026-01-01 00:00:00', 'http_410', '2026-01-01 00:00:00', '2026-01-01 00:00:00')"
        )
        before = table(cursor, "subscriptions", "secret", "custom_headers", "disabled_at")
    assert None not in {disabled for *_, disabled in before.values()}

    forward(scratch)

    with scratch.cursor() as cursor:
        endpoints = {pk: row[0] for pk, row in table(cursor, "subscriptions", "endpoint_id").items()}
        after = table(cursor, "subscriptions", "secret", "custom_headers", "disabled_at")
        shared = table(cursor, "endpoints", "secret", "custom_headers", "disabled_at")
        disabled = {row[0] for row in table(cursor, "endpoint_health", "endpoint_id").values()}
    assert endpoints[first] == endpoints[second]
    assert len({endpoints[pk] for pk in (first, other_secret, other_limit, customers, unreadable)}) == 5
    assert disabled == set(endpoints.values()) == set(shared)
    assert {pk: shared[endpoint] for pk, endpoint in endpoints.items()} == after
    for pk, (secret, *others) in before.items():
        assert after[pk][1:] == tuple(others)
        if pk != unreadable:
            assert crypto.decrypt(after[pk][0]) == crypto.decrypt(secret)
    assert after[unreadable] == before[unreadable]


def table(cursor: Any, name: str, *columns: str) -> dict[int, tuple[Any, ...]]:
    cursor.execute(f"SELECT id, {', '.join(columns)} FROM {name}")
    return {pk: tuple(values) for pk, *values in cursor.fetchall()}
