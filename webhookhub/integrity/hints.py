"""By which index another table is looked up, said to the server instead of left to its statistics.

Right after a bulk load these may still say that a table is empty; a plan made for an empty table reads all of it for
every row of a batch. Asked of the schema and not written down, because a missing index is for the audit to report.
"""

from __future__ import annotations

from django.db import connection

from webhookhub.db import vendors

LOOKUPS = {
    "saga_by_event": ("webhook_delivery_sagas", "event_id"),
    "saga_by_id": ("webhook_delivery_sagas", "id"),
    "job_by_saga": ("webhook_delivery_jobs", "saga_id"),
    "letter_by_saga": ("dead_letters", "saga_id"),
    "letter_by_id": ("dead_letters", "id"),
    "requeue_by_letter": ("dead_letter_requeues", "dead_letter_id"),
    "event_by_id": ("events", "id"),
    "fact_by_instance": ("saga_facts", "instance_id"),
    "instance_by_id": ("saga_instances", "id"),
    "inbox_by_event": ("routing_inbox", "event_id"),
    "subscription_by_type": ("subscriptions", "event_type"),
    "subscription_by_id": ("subscriptions", "id"),
    "fact_by_event": ("saga_facts", "event_id"),
    "fact_by_saga": ("saga_facts", "instance_id"),
}


def hints() -> dict[str, str]:
    return {name: vendors.lookup_hint(connection, table, column) for name, (table, column) in LOOKUPS.items()}
