"""Which event types the trigger on `events` copies into the inbox, and events that it missed.

A type is tracked from the commit of its row. An event inserted before that is not in the inbox, even if its own
transaction commits later. So for one hour, the events of the hour before are searched again and again and put into the
inbox. A producer that keeps a transaction open for longer than that loses events. A workflow that was retired and is
put back only tracks events published from then on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from events.models import Event
from webhookhub.db import clock
from webhookhub.db.bulk import delete_each, insert_new

from . import lookup, versions
from .definition import Definition
from .models import Fact, Instance, TrackedType, WorkflowInbox
from .registry import Registry
from .state import OPEN

# How far back a newly tracked type's events are fetched, and for how long they are searched.
REACH = timedelta(hours=1)
# Statements of producer and tracker may commit in another order than they started.
SLACK = timedelta(minutes=1)
SEARCH_SECONDS = 60.0


def listen(registry: Registry) -> None:
    """Track the needed types. Types that are already tracked stay: other processes may need them."""
    track(needed(registry))


def track(event_types: Collection[str]) -> None:
    now = clock.now()
    rows = [{"event_type": name, "tracked_since": now, "caught_up": False} for name in sorted(event_types)]
    insert_new(TrackedType, rows, key=("event_type",), look_first=True)


def needed(registry: Registry) -> set[str]:
    """The types of offered definitions, and of retired ones that have open runs."""
    definitions = (
        definition for definition in registry.all() if registry.offers(definition) or _has_open_runs(definition)
    )
    return {event_type for definition in definitions for event_type in definition.roles}


def not_needed(registry: Registry) -> list[str]:
    """Tracked types that no definition of this registry needs."""
    return sorted(set(TrackedType.objects.values_list("event_type", flat=True)) - needed(registry))


def untrack(event_types: Sequence[str]) -> int:
    """Only on a person's request: this process cannot know what others need."""
    return delete_each(TrackedType, event_types)


def _has_open_runs(definition: Definition) -> bool:
    rows = Instance.objects.filter(saga_type=definition.name, definition_version=definition.version, status__in=OPEN)
    return rows.exists()


class CatchUp:
    def __init__(self) -> None:
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def catch_up(self, batch_size: int) -> int:
        """Search once a minute while a type is new; returns how many events were put into the inbox."""
        if not self.is_due:
            return 0
        self._next = time.monotonic() + SEARCH_SECONDS
        now = clock.now()
        added = 0
        behind = list(TrackedType.objects.filter(caught_up=False).values_list("event_type", "tracked_since"))
        back = _put_back(behind) if behind else set()
        for event_type, since in behind:
            begin = since if event_type in back else since - REACH
            events = Event.objects.filter(event_type=event_type).only("id", "created_at")
            batches = lookup.in_period(events, "created_at", begin, since + SLACK, batch_size)
            added += sum(_add([event.id for event in batch]) for batch in batches)
            if now > since + REACH + SLACK:
                TrackedType.objects.filter(event_type=event_type, tracked_since=since).update(caught_up=True)
        return added


def _put_back(behind: Iterable[tuple[str, datetime]]) -> set[str]:
    """Types whose workflows were all in use before the tracking started: they were retired in between."""
    registry, first_used = versions.in_force(), versions.first_used()
    back = set()
    for event_type, since in behind:
        listening = [definition for definition in registry.all() if event_type in definition.roles]
        offered = {definition.name for definition in listening if registry.offers(definition)}
        before = {definition.name for definition in listening if first_used.get(definition.key, since) < since}
        # `offered` may be empty here: another process offers the workflow.
        if before and offered <= before:
            back.add(event_type)
    return back


def _add(event_ids: list[int]) -> int:
    """Put events without facts into the inbox. Tracking an event twice changes nothing."""
    tracked = set(Fact.objects.filter(event_id__in=event_ids).values_list("event_id", flat=True))
    rows = [{"event_id": pk, "lease_until": None} for pk in event_ids if pk not in tracked]
    return insert_new(WorkflowInbox, rows, key=("event_id",), look_first=True)
