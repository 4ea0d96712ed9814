"""Finds events by uid, correlation id or external id, each by its own index."""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from webhookhub.db import vendors

from .models import Event

MAX_RESULTS = 1000
MAX_SOURCES = 100
TEXT_LENGTH = 200


def find(term: str) -> set[int]:
    """Ids of the events with this uid, correlation id or external id; at most MAX_RESULTS per kind."""
    if len(term) > TEXT_LENGTH:
        return set()
    return {*_by_uid_or_correlation(term), *of_external_id(term)}


def of_external_id(external_id: str, source: str | None = None) -> list[int]:
    """Ids of the events with this external id, of one source or of all, the newest first; at most MAX_RESULTS."""
    # The key starts with the source: no index serves the external id alone.
    sources = _sources() if source is None else [source]
    rows = Event.objects.filter(source__in=sources, external_id=external_id).order_by("-id")
    return list(rows.values_list("id", flat=True)[:MAX_RESULTS])


def _by_uid_or_correlation(term: str) -> list[int]:
    """One query for both."""
    try:
        uid = UUID(term)
    except ValueError:
        return of_correlation(term, None, MAX_RESULTS)
    table = Event._meta.db_table
    by_index = vendors.by_index(connection, table, "idx_event_correlation")
    sql = (
        f"SELECT id FROM {table} WHERE uid = %s UNION ALL SELECT id FROM "  # noqa: S608
        f"(SELECT id FROM {by_index} WHERE correlation_id = %s ORDER BY id DESC LIMIT %s) correlated"
    )
    stored = Event._meta.get_field("uid").get_db_prep_value(uid, connection)
    return [event.id for event in Event.objects.raw(sql, [stored, term, MAX_RESULTS])]


def _sources() -> list[str]:
    """At most MAX_SOURCES sources. DISTINCT, because servers answer it with a skip scan along the key."""
    rows = Event.objects.order_by("source").values_list("source", flat=True).distinct()
    return list(rows[:MAX_SOURCES])


def of_correlation(correlation_id: str, source: str | None, limit: int) -> list[int]:
    """Ids of the newest events with this correlation id, of one source or of all."""
    # In SQL, to name the index: a database might read all events of the source instead.
    table = vendors.by_index(connection, Event._meta.db_table, "idx_event_correlation")
    conditions, values = "correlation_id = %s", [correlation_id]
    if source is not None:
        conditions, values = f"{conditions} AND source = %s", [*values, source]
    sql = f"SELECT id FROM {table} WHERE {conditions} ORDER BY id DESC LIMIT %s"  # noqa: S608
    return [event.id for event in Event.objects.raw(sql, [*values, limit])]
