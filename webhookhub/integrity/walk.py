"""A table from its first row to its last, in batches by primary key.

The batches are cut once and shared by all checks: rows that are added later belong to the next audit.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from webhookhub.db import vendors

from .hints import hints

BEFORE_ALL = -(2**63)


@dataclass(frozen=True)
class Table:
    name: str
    alias: str
    key: str = "id"


SAGAS = Table("webhook_delivery_sagas", "s")
JOBS = Table("webhook_delivery_jobs", "j")
LETTERS = Table("dead_letters", "d")
REQUEUES = Table("dead_letter_requeues", "r")
EVENTS = Table("events", "e")
INBOX = Table("routing_inbox", "i", "event_id")
INSTANCES = Table("saga_instances", "w")
FACTS = Table("saga_facts", "f")
WORKFLOW_INBOX = Table("workflow_inbox", "i", "event_id")


@dataclass(frozen=True)
class Batch:
    """The rows whose key is above `low` and not above `high`."""

    low: int
    high: int
    rows: int


class Walk:
    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._batches: dict[Table, list[Batch]] = {}
        self.hints = hints()

    def batches(self, table: Table) -> list[Batch]:
        if table not in self._batches:
            self._batches[table] = self._cut(table)
        return self._batches[table]

    def _cut(self, table: Table) -> list[Batch]:
        # By counting rows and not by adding to the key: idempotent inserts leave wide gaps between keys.
        keys = f"SELECT {table.key} AS k FROM {table.name} WHERE {table.key} > %s ORDER BY {table.key} LIMIT %s"  # noqa: S608
        found: list[Batch] = []
        low = BEFORE_ALL
        while True:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT MAX(k), COUNT(*) FROM ({keys}) batch", [low, self._batch_size])  # noqa: S608
                high, rows = cursor.fetchone()
            if not rows:
                return found
            found.append(Batch(low, high, rows))
            low = high


def walked(table: Table) -> str:
    """The table and its alias, to be read along its primary key and no other way."""
    return vendors.by_primary_key(connection, table.name, table.alias)


def within(table: Table) -> str:
    """The condition that a row belongs to the batch."""
    return f"{table.alias}.{table.key} > %(low)s AND {table.alias}.{table.key} <= %(high)s"
