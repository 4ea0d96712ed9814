"""Finding dead letters by what people hold in their hands, each by its own index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection

from events import lookup as events
from webhookhub.console.exact_search import number
from webhookhub.db import vendors

from .models import DeadLetter

MOST_FOUND = 1000


class Named(NamedTuple):
    """`more` says that the term may name others, older than these."""

    ids: list[int]
    more: bool


def find(term: str) -> Named:
    """Those with this number, of the delivery with this number, or of the events that this names."""
    event_ids = sorted(events.find(term))
    found = _newest_of(event_ids)
    more = len(found) > MOST_FOUND or len(event_ids) >= events.MAX_RESULTS
    ids = set(found[:MOST_FOUND])
    id = number(term)
    if id is not None:
        ids |= {id, *DeadLetter.objects.filter(saga_id=id).values_list("id", flat=True)}
    return Named(sorted(ids), more)


def _newest_of(event_ids: Sequence[int]) -> list[int]:
    """One more than MOST_FOUND, if there are so many."""
    if not event_ids:
        return []
    # In SQL, because the index must be named: in the order of ids the whole table might be gone through instead.
    table = vendors.by_index(connection, DeadLetter._meta.db_table, "idx_dead_event")
    places = ", ".join(["%s"] * len(event_ids))
    sql = f"SELECT id FROM {table} WHERE event_id IN ({places}) ORDER BY id DESC LIMIT %s"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [*event_ids, MOST_FOUND + 1])
        return [id for (id,) in cursor.fetchall()]
