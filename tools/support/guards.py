"""Switches the state machine's triggers off, to seed a scratch database on a server with rows in any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

STATE_MACHINE = (
    "trg_saga_created",
    "trg_saga_changed",
    "trg_job_created",
    "trg_job_changed",
    "trg_dead_created",
    "trg_instance_created",
    "trg_fact_created",
)


def query(sql: str) -> Sequence[tuple[Any, ...]]:
    """Runs a statement on Django's connection."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, None)
        return list(cursor.fetchall())


@contextmanager
def switched_off(query: Callable[[str], Sequence[tuple[Any, ...]]] = query) -> Iterator[None]:
    """`query` runs a statement as a user that may create triggers. Not within a transaction."""
    names = ", ".join(f"'{name}'" for name in STATE_MACHINE)
    triggers = query(
        "SELECT trigger_name, action_timing, event_manipulation, event_object_table, action_statement "
        f"FROM information_schema.triggers WHERE trigger_schema = DATABASE() AND trigger_name IN ({names})"
    )
    for name, *_ in triggers:
        query(f"DROP TRIGGER {name}")
    try:
        yield
    finally:
        for name, timing, event, table, body in triggers:
            query(f"CREATE TRIGGER {name} {timing} {event} ON {table} FOR EACH ROW {body}")
