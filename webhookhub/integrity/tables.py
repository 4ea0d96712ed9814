"""The tables that are checked, in batches by primary key.

The batches are computed once and shared by all checks: rows that are added later are left to the next run.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from webhookhub.db import vendors

BEFORE_ALL = -(2**63)


@dataclass(frozen=True)
class Table:
    name: str
    alias: str
    key: str = "id"

    @property
    def by_primary_key(self) -> str:
        """The table and its alias, with a hint to read along the primary key."""
        return vendors.by_primary_key(connection, self.name, self.alias)

    @property
    def in_batch(self) -> str:
        """The condition that a row belongs to the batch."""
        return f"{self.alias}.{self.key} > %(low)s AND {self.alias}.{self.key} <= %(high)s"


SAGAS = Table("webhook_delivery_sagas", "s")
JOBS = Table("webhook_delivery_jobs", "j")
LETTERS = Table("dead_letters", "d")
REQUEUES = Table("dead_letter_requeues", "r")
REQUESTS = Table("delivery_requests", "q")
EVENTS = Table("events", "e")
INBOX = Table("routing_inbox", "i", "event_id")
SUBSCRIPTIONS = Table("subscriptions", "u")
ENDPOINTS = Table("endpoints", "p")
INSTANCES = Table("saga_instances", "w")
FACTS = Table("saga_facts", "f")
WORKFLOW_INBOX = Table("workflow_inbox", "i", "event_id")

# Joined tables and the column whose index must be used. Without a hint, statistics that are older than a bulk load may
# make the server read a whole table for every row. Read from the schema, because a missing index is a violation to
# report and not an error.
HINTS = {
    "saga_by_event": ("webhook_delivery_sagas", "event_id"),
    "saga_by_id": ("webhook_delivery_sagas", "id"),
    "job_by_saga": ("webhook_delivery_jobs", "saga_id"),
    "letter_by_saga": ("dead_letters", "saga_id"),
    "letter_by_id": ("dead_letters", "id"),
    "letter_by_error": ("dead_letters", "final_error_code"),
    "request_by_id": ("delivery_requests", "id"),
    "request_by_saga": ("delivery_requests", "saga_id"),
    "requeue_by_letter": ("dead_letter_requeues", "dead_letter_id"),
    "event_by_id": ("events", "id"),
    "fact_by_instance": ("saga_facts", "instance_id"),
    "fact_by_event": ("saga_facts", "event_id"),
    "instance_by_id": ("saga_instances", "id"),
    "inbox_by_event": ("routing_inbox", "event_id"),
    "subscription_by_type": ("subscriptions", "event_type"),
    "subscription_by_id": ("subscriptions", "id"),
    "customer_by_key": ("customers", "customer_key"),
    "health_by_endpoint": ("endpoint_health", "endpoint_id"),
    "endpoint_by_id": ("endpoints", "id"),
}


@dataclass(frozen=True)
class Batch:
    """The rows whose key is above `low` and not above `high`."""

    low: int
    high: int
    rows: int


class Batches:
    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._batches: dict[Table, list[Batch]] = {}
        self.hints = {name: vendors.lookup_hint(connection, *lookup) for name, lookup in HINTS.items()}

    def of(self, table: Table) -> list[Batch]:
        if table not in self._batches:
            self._batches[table] = self._compute(table)
        return self._batches[table]

    def _compute(self, table: Table) -> list[Batch]:
        # By counting rows, not by adding to the key: idempotent inserts leave wide gaps between keys.
        keys = f"SELECT {table.key} AS k FROM {table.name} WHERE {table.key} > %s ORDER BY {table.key} LIMIT %s"  # noqa: S608
        batches: list[Batch] = []
        low = BEFORE_ALL
        while True:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT MAX(k), COUNT(*) FROM ({keys}) batch", [low, self._batch_size])  # noqa: S608
                high, rows = cursor.fetchone()
            if not rows:
                return batches
            batches.append(Batch(low, high, rows))
            low = high
