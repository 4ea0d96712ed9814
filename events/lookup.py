"""Finding events by what people hold in their hands, each by its own index."""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from webhookhub.db import vendors

from .models import Event

MOST_FOUND = 1000
MOST_SOURCES = 100
TEXT_LENGTH = 200


def find(term: str) -> set[int]:
    """Ids of the events with this uid, correlation id or external id; at most MOST_FOUND of each kind."""
    if len(term) > TEXT_LENGTH:
        return set()
    found = set(_by_uid_or_correlation(term))
    # The key starts with the source: by the external id alone no index could be used.
    found.update(_ids(source__in=_sources(), external_id=term))
    return found


def _by_uid_or_correlation(term: str) -> list[int]:
    """Both in one question: a page asks many."""
    try:
        uid = UUID(term)
    except ValueError:
        return of_correlation(term, None, MOST_FOUND)
    table = Event._meta.db_table
    tied = vendors.by_index(connection, table, "idx_event_correlation")
    sql = (
        f"SELECT id FROM {table} WHERE uid = %s UNION ALL SELECT id FROM "  # noqa: S608
        f"(SELECT id FROM {tied} WHERE correlation_id = %s ORDER BY id DESC LIMIT %s) tied"
    )
    stored = Event._meta.get_field("uid").get_db_prep_value(uid, connection)
    return [event.id for event in Event.objects.raw(sql, [stored, term, MOST_FOUND])]


def _ids(**conditions: object) -> list[int]:
    rows = Event.objects.filter(**conditions).order_by("-id")
    return list(rows.values_list("id", flat=True)[:MOST_FOUND])


def _sources() -> list[str]:
    """The producers there are, at most MOST_SOURCES.

    A DISTINCT, for which servers leap along the key from one to the next; a step of a recursive statement does not
    leap, and reads all events of the sources before it.
    """
    rows = Event.objects.order_by("source").values_list("source", flat=True).distinct()
    return list(rows[:MOST_SOURCES])


def of_correlation(correlation_id: str, source: str | None, most: int) -> list[int]:
    """Ids of the newest events that are tied together by this id, at most so many; of one producer or of all."""
    # In SQL, because the index must be named: a database might look for all events of that source instead.
    table = vendors.by_index(connection, Event._meta.db_table, "idx_event_correlation")
    conditions, values = "correlation_id = %s", [correlation_id]
    if source is not None:
        conditions, values = f"{conditions} AND source = %s", [*values, source]
    sql = f"SELECT id FROM {table} WHERE {conditions} ORDER BY id DESC LIMIT %s"  # noqa: S608
    return [event.id for event in Event.objects.raw(sql, [*values, most])]
