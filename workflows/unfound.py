"""Sagas of the database that a definition would not have: of all their events there is none that it finds.

For a definition that is tried on the past. In batches, and writing nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q

from events.models import Event

from .definition import Definition
from .models import Fact, Instance
from .paths import Document
from .words import EVENT, STARTED, VERB

PIECE = 500


class Stored(NamedTuple):
    """A saga of the database."""

    id: int
    correlation_key: str
    status: str
    step: str

    def told(self, key: str) -> str:
        """Its state, and its own key where that is another."""
        state = " at ".join(filter(None, (self.status, self.step)))
        return state if self.correlation_key == key else f"{state} (as {self.correlation_key})"


def begun(name: str, since: datetime, until: datetime) -> Iterator[list[Stored]]:
    """The sagas of this type that began in that time, the first first, a piece at a time along the index by time."""
    # The type is looked at here and not asked for: by the index that begins with it all that there ever were are read.
    rows = Instance.objects.filter(started_at__gte=since, started_at__lte=until).order_by("started_at", "id")
    rows = rows.only("id", "saga_type", "correlation_key", "status", "current_step", "started_at")
    piece = list(rows[:PIECE])
    while piece:
        yield [
            Stored(row.id, row.correlation_key, row.status, row.current_step) for row in piece if row.saga_type == name
        ]
        last = piece[-1]
        later = Q(started_at__gt=last.started_at) | Q(started_at=last.started_at, id__gt=last.id)
        piece = list(rows.filter(later, started_at__gte=last.started_at)[:PIECE]) if len(piece) == PIECE else []


def unfound(definition: Definition, ids: Collection[int]) -> set[int]:
    """Those that have heard events, none of which the definition finds. Of one whose events are not all there any more
    nobody can say that; one that was only told of does not depend on what it finds."""
    heard: dict[int, set[int]] = defaultdict(set)
    rows = Fact.objects.filter(instance_id__in=ids, origin=EVENT, event_id__isnull=False)
    for id, event_id in rows.values_list("instance_id", "event_id"):
        heard[id].add(event_id or 0)
    passed_over = _passed_over(definition, sorted({event_id for events in heard.values() for event_id in events}))
    return {id for id, events in heard.items() if events <= passed_over}


def begun_by_word(ids: Collection[int]) -> set[int]:
    """Those whose start a service told: they begin whatever becomes of their events."""
    rows = Fact.objects.filter(instance_id__in=ids, role=STARTED, origin=VERB)
    return set(rows.values_list("instance_id", flat=True))


def _passed_over(definition: Definition, event_ids: list[int]) -> set[int]:
    """Those that are there and of which the definition takes nothing."""
    found = set[int]()
    for start in range(0, len(event_ids), PIECE):
        there = Event.objects.filter(id__in=event_ids[start : start + PIECE])
        types = dict(there.values_list("id", "event_type"))
        listened_to = [id for id, event_type in types.items() if event_type in definition.roles]
        found |= types.keys()
        for event in Event.objects.filter(id__in=listened_to):
            if Document(event.correlation_id, event.payload).key(definition.correlation) is not None:
                found.remove(event.id)
    return found
