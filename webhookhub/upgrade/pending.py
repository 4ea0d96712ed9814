"""Which migrations are not applied, and which of them a process of the version before survives."""

from __future__ import annotations

from typing import NamedTuple

from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration

Key = tuple[str, str]
PACKAGES = {"webhookhub", "events", "subscriptions", "sagas", "jobs", "deadletters", "workflows", "api"}


class Pending(NamedTuple):
    """`expand`: a process of the version before works while and after they are applied. `contract`: it must have ended.
    `blocked`: migrations to expand that depend on one to contract, so that both versions cannot work side by side."""

    expand: list[Migration]
    contract: list[Migration]
    blocked: list[Migration]


def own_apps() -> set[str]:
    """The apps of this project, by the names that their migrations have."""
    return {config.label for config in apps.get_app_configs() if config.name.partition(".")[0] in PACKAGES}


def is_contract(migration: Migration) -> bool:
    """A migration that a process of the version before does not survive says so with `contract = True`."""
    return getattr(migration, "contract", False)


def pending(loader: MigrationLoader | None = None) -> Pending:
    loader = loader or MigrationLoader(connection)
    found = Pending([], [], [])
    for key in _in_order(loader):
        if key in loader.applied_migrations:
            continue
        migration = loader.disk_migrations[key]
        if is_contract(migration):
            found.contract.append(migration)
        elif any(is_contract(before) for before in _unapplied_before(loader, key)):
            found.blocked.append(migration)
        else:
            found.expand.append(migration)
    return found


def is_new_database(loader: MigrationLoader) -> bool:
    own = own_apps()
    return not any(app in own for app, _ in loader.applied_migrations)


def unknown_migrations(loader: MigrationLoader) -> list[Key]:
    """Applied migrations that this version does not have: a newer version has migrated the database."""
    own = own_apps()
    return sorted(key for key in loader.applied_migrations if key[0] in own and key not in loader.disk_migrations)


def _in_order(loader: MigrationLoader) -> list[Key]:
    order: dict[Key, None] = {}
    for leaf in loader.graph.leaf_nodes():
        order.update(dict.fromkeys(loader.graph.forwards_plan(leaf)))
    return list(order)


def _unapplied_before(loader: MigrationLoader, key: Key) -> list[Migration]:
    return [
        loader.disk_migrations[before]
        for before in loader.graph.forwards_plan(key)
        if before != key and before not in loader.applied_migrations
    ]
