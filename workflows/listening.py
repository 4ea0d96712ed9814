"""Which event types the trigger on `events` copies into the inbox, and what it could not copy yet.

A type begins to be tracked when its row commits. An event that was inserted before that is not in the inbox, even if
its own transaction commits later. So for an hour from then on the events of the hour before are looked for, again and
again, and put into the inbox: nothing is missed unless a producer keeps a transaction open for longer than that.
Of a workflow that was retired and is put back, only what is published from then on counts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from events.models import Event
from webhookhub.db import clock
from webhookhub.db.bulk import delete_each, insert_new

from . import versions
from .definition import Definition
from .models import Fact, Instance, TrackedType, WorkflowInbox
from .registry import Registry
from .words import OPEN

# How long before it is tracked a type's events are fetched, and for how long they are looked for.
REACH = timedelta(hours=1)
# The producer's statement and the tracker's may have begun in another order than they have ended.
SLACK = timedelta(minutes=1)
LOOK_SECONDS = 60.0
MOMENT = timedelta(milliseconds=2)


def listen(registry: Registry) -> None:
    """Track the types that are needed, besides those that are tracked already: other processes, with newer definitions
    or older ones, may need these."""
    track(needed(registry))


def track(event_types: Collection[str]) -> None:
    tracked = set(TrackedType.objects.filter(event_type__in=event_types).values_list("event_type", flat=True))
    now = clock.now()
    missing = sorted(set(event_types) - tracked)
    new = [{"event_type": each, "tracked_since": now, "caught_up": False} for each in missing]
    if new:
        insert_new(TrackedType, new, key=("event_type",))


def needed(registry: Registry) -> set[str]:
    """The types of what is offered, and of what was if a saga of it is still open."""
    return {kind for each in registry.all() if registry.offers(each) or _is_open(each) for kind in each.roles}


def not_needed(registry: Registry) -> list[str]:
    """Tracked types that no definition known here has a use for."""
    wanted = needed(registry)
    return sorted(set(TrackedType.objects.values_list("event_type", flat=True)) - wanted)


def untrack(event_types: Sequence[str]) -> int:
    """Only on a person's word, who knows that no other process needs them."""
    return delete_each(TrackedType, event_types)


def _is_open(definition: Definition) -> bool:
    rows = Instance.objects.filter(saga_type=definition.name, definition_version=definition.version, status__in=OPEN)
    return rows.exists()


class CatchUp:
    def __init__(self) -> None:
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def catch_up(self, batch_size: int) -> int:
        """Once a minute while there is something to look for; returns how many events were put into the inbox."""
        if not self.is_due:
            return 0
        self._next = time.monotonic() + LOOK_SECONDS
        now = clock.now()
        added = 0
        behind = list(TrackedType.objects.filter(caught_up=False).values_list("event_type", "tracked_since"))
        back = _put_back(behind) if behind else set()
        for event_type, since in behind:
            begin = since if event_type in back else since - REACH
            added += sum(_add(ids) for ids in _events(event_type, begin, since + SLACK, batch_size))
            if now > since + REACH + SLACK:
                TrackedType.objects.filter(event_type=event_type, tracked_since=since).update(caught_up=True)
        return added


def _put_back(behind: Iterable[tuple[str, datetime]]) -> set[str]:
    """The types that every workflow which is offered and listens to them had in use before they were tracked: in
    between it was retired, and what happened then begins nothing now."""
    known, first_used = versions.in_force(), versions.first_used()
    back = set()
    for event_type, since in behind:
        listening = [each for each in known.all() if event_type in each.roles]
        offered = {each.name for each in listening if known.offers(each)}
        before = {each.name for each in listening if first_used.get((each.name, each.version), since) < since}
        # A process that does not offer it goes by those that have used it, too.
        if before and offered <= before:
            back.add(event_type)
    return back


def _events(event_type: str, since: datetime, until: datetime, batch_size: int) -> Iterator[list[int]]:
    """Ids of the type's events of that time, in its order."""
    rows = Event.objects.filter(event_type=event_type, created_at__gte=since, created_at__lte=until)
    rows = rows.order_by("created_at", "id")
    found = list(rows.values_list("id", "created_at")[:batch_size])
    seen: dict[int, datetime] = {}
    while found:
        yield [id for id, _ in found]
        if len(found) < batch_size:
            return
        # From a moment before the last one, without those of that moment: an engine that keeps times as text keeps the
        # same time in more than one form.
        since = found[-1][1] - MOMENT
        seen = {id: at for id, at in [*seen.items(), *found] if at >= since}
        following = rows.filter(created_at__gte=since).exclude(id__in=seen)
        found = list(following.values_list("id", "created_at")[:batch_size])


def _add(event_ids: list[int]) -> int:
    """Those that no saga has heard of. One that was heard of by another is looked at in vain, and no harm done."""
    known = set(Fact.objects.filter(event_id__in=event_ids).values_list("event_id", flat=True))
    rows = [{"event_id": id, "lease_until": None} for id in event_ids if id not in known]
    return insert_new(WorkflowInbox, rows, key=("event_id",), look_first=True) if rows else 0
