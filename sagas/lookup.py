"""Finding deliveries by the event they deliver."""

from __future__ import annotations

from events import lookup as events

from .models import Saga

MOST_FOUND = 1000


def find(term: str) -> set[int]:
    """Ids of the deliveries of the events that the term names; at most MOST_FOUND."""
    event_ids = events.find(term)
    if not event_ids:
        return set()
    rows = Saga.objects.filter(event_id__in=event_ids).order_by("event_id", "subscription_id")
    return set(rows.values_list("id", flat=True)[:MOST_FOUND])
