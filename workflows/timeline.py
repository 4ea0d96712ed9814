"""The timeline of a run: each fact with its event and the deliveries of that event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from events.models import Event
from sagas.models import Saga

from .models import Fact, Instance

# A producer may repeat itself without end: the page shows no more.
MAX_FACTS = 500
MAX_DELIVERIES = 2000


class Entry(NamedTuple):
    fact: Fact
    event: Event | None
    deliveries: list[Saga]


def timeline(instance: Instance, after: tuple[datetime, int] | None = None, limit: int = MAX_FACTS) -> list[Entry]:
    """In the order in which things happened. `after`: time and id of the last fact of the previous page."""
    rows = Fact.objects.filter(instance_id=instance.id).order_by("occurred_at", "id")
    if after is not None:
        at, pk = after
        rows = rows.filter(occurred_at__gte=at).exclude(occurred_at=at, id__lte=pk)
    facts = list(rows[:limit])
    event_ids = {fact.event_id for fact in facts if fact.event_id is not None}
    events = Event.objects.defer("payload").in_bulk(event_ids)
    deliveries = latest_deliveries(event_ids)
    return [Entry(fact, events.get(fact.event_id or 0), deliveries.get(fact.event_id or 0, [])) for fact in facts]


def latest_deliveries(event_ids: Collection[int]) -> dict[int, list[Saga]]:
    """Event → its latest delivery to each subscription."""
    rows = Saga.objects.filter(event_id__in=event_ids).order_by("event_id", "subscription_id", "generation")
    rows = rows.select_related("event", "subscription").defer("event__payload")[:MAX_DELIVERIES]
    # A later generation replaces the one before.
    latest = {(saga.event_id, saga.subscription_id): saga for saga in rows}
    result: dict[int, list[Saga]] = defaultdict(list)
    for saga in latest.values():
        result[saga.event_id].append(saga)
    return result
