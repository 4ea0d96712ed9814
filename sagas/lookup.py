"""Finds deliveries by their event."""

from __future__ import annotations

from events import lookup as events

from .models import Saga

MAX_RESULTS = 1000


def find(term: str) -> set[int]:
    """Ids of the deliveries whose event has this uid, external id or correlation id; at most MAX_RESULTS."""
    event_ids = events.find(term)
    if not event_ids:
        return set()
    rows = Saga.objects.filter(event_id__in=event_ids).order_by("event_id", "subscription_id")
    return set(rows.values_list("id", flat=True)[:MAX_RESULTS])
