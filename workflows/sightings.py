"""What is read from events, by every version of a definition that may have sagas.

Versions may look for the correlation key, the aggregate and the reason of a failure in different places. A saga goes by
the version that it was born with, so an event is read in each of the ways in which some version reads it; mostly there
is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from events.models import Event
from webhookhub.db import clock
from webhookhub.logs import Fact as Told
from webhookhub.logs import log

from .definition import CORRELATION_ID, Reading
from .facts import MOST_REPEATS
from .models import Fact
from .moments import believed
from .paths import Document
from .registry import Registry

# Payloads that are in memory at once.
PIECE = 200
# Events that were there before their sagas were first heard of: beyond that, of each saga the first of each type.
MOST_HISTORY = 1000

# Type of the saga and correlation key.
Key = tuple[str, str]


class Seen(NamedTuple):
    """What is taken from an event in one way of reading it."""

    event_id: int
    event_type: str
    # When it happened, as far as that can be believed.
    at: datetime
    reading: Reading
    aggregate_id: str | None
    reason: str


class Sightings:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._now = clock.now()
        self.seen: dict[Key, list[Seen]] = defaultdict(list)

    def look(self, event_ids: Sequence[int]) -> None:
        for events in _in_pieces(event_ids):
            for event in events:
                self._read(event)

    def look_back(self, unborn: Collection[Key], before: int) -> None:
        """What happened before the hub began to listen belongs to the saga too: half of one would be misjudged.

        Only what is older than all that is at hand: the rest comes, or has come, by the inbox. And only what no saga
        of the same type has heard of: that belongs to one of another version.
        """
        latest = self._registry.latest
        keys = {key for key in unborn if latest[key[0]].correlation == CORRELATION_ID}
        if not keys:
            return
        types = {event_type for name, _ in keys for event_type in latest[name].roles}
        ids = _history({key for _, key in keys}, types, before)
        known = heard(ids)
        for events in _in_pieces(ids):
            for event in events:
                self._read(event, keys - {key for key in keys if (key[0], event.id) in known})

    def _read(self, event: Event, only: Collection[Key] | None = None) -> None:
        document = Document(event.correlation_id, event.payload)
        at = believed(event.created_at, self._now)
        for name, reading in self._registry.readings.get(event.event_type, ()):
            key = document.key(reading.correlation)
            if key is None:
                current = self._registry.latest.get(name)
                if current and reading == current.reading:
                    log(Told.WORKFLOW_EVENT_UNUSABLE, event_uid=str(event.uid), saga_type=name)
            elif only is None or (name, key) in only:
                aggregate_id, reason = document.key(reading.aggregate), document.text(reading.error, 500)
                seen = Seen(event.id, event.event_type, at, reading, aggregate_id, reason)
                self.seen[name, key].append(seen)


def heard(event_ids: Collection[int]) -> set[tuple[str, int]]:
    """(type, event) of which a saga of this type has a fact already."""
    if not event_ids:
        return set()
    rows = Fact.objects.filter(event_id__in=event_ids).values_list("instance__saga_type", "event_id")
    return {(name, event_id) for name, event_id in rows if event_id is not None}


def _in_pieces(event_ids: Sequence[int]) -> Iterable[Iterable[Event]]:
    for start in range(0, len(event_ids), PIECE):
        yield Event.objects.filter(id__in=event_ids[start : start + PIECE])


def _history(correlation_ids: Collection[str], types: Collection[str], before: int) -> list[int]:
    past = Event.objects.filter(correlation_id__in=correlation_ids, event_type__in=types, id__lt=before)
    ids = list(past.order_by("id").values_list("id", flat=True)[: MOST_HISTORY + 1])
    if len(ids) <= MOST_HISTORY:
        return ids
    # One of them has a past beyond measure, which must not be at the expense of the others.
    place = Window(RowNumber(), partition_by=[F("correlation_id"), F("event_type")], order_by=F("id").asc())
    first = past.annotate(place=place).filter(place__lte=MOST_REPEATS)
    return sorted(first.values_list("id", flat=True))
