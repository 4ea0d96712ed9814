"""One tracking step: events from the inbox become facts of sagas, and these are brought up to date."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Q

from events.models import Event
from figures import totals
from webhookhub.db import clock
from webhookhub.db.retry import in_transaction
from webhookhub.db.statements import delete_each, insert_new, update_each
from webhookhub.logs import Fact, log

from . import facts, used
from .definition import CORRELATION_ID, Definition
from .facts import Observation
from .models import Instance, WorkflowInbox, WorkflowTouched
from .paths import Document
from .progress import advance
from .registry import Registry
from .verbs import row
from .words import FAILURE, UNDO_FAILED

# Longer than a batch takes. A tracker that was killed leaves its events to others after this.
LEASE = timedelta(seconds=10)
# Payloads that are in memory at once.
PIECE = 200
# Of one correlation id, events that were there before its saga was first heard of.
MOST_HISTORY = 1000

Key = tuple[str, str]


class Seen(NamedTuple):
    """What is taken from an event for one definition."""

    event_id: int
    event_type: str
    at: datetime
    aggregate_id: str | None
    reason: str


class Tracker:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._remembered: set[tuple[str, int]] = set()

    def track(self, batch_size: int) -> int:
        """One batch of events; returns how many. Leased first, removed last: a crash in between repeats it."""
        leased = _lease(batch_size)
        if leased:
            advance(self._record(leased), self._registry)
            in_transaction(lambda: _remove(leased))
        return len(leased)

    def touch(self, batch_size: int) -> int:
        """One batch of facts that were told; returns how many."""
        told = list(WorkflowTouched.objects.order_by("fact_id").values_list("fact_id", "instance_id")[:batch_size])
        if told:
            advance([instance_id for _, instance_id in told], self._registry)
            delete_each(WorkflowTouched, [fact_id for fact_id, _ in told])
        return len(told)

    def _record(self, event_ids: Sequence[int]) -> set[int]:
        """Facts from events; returns the sagas concerned."""
        seen: dict[Key, list[Seen]] = defaultdict(list)
        for start in range(0, len(event_ids), PIECE):
            self._look(Event.objects.filter(id__in=event_ids[start : start + PIECE]), seen)
        sagas = _existing(seen)
        unborn = [key for key in seen if key not in sagas and self._begins(key, seen[key])]
        if unborn:
            self._look_back(unborn, seen, min(event_ids))
            self._give_birth(unborn)
            sagas |= _existing(unborn)
        often = facts.said_often({instance_id for instance_id, _ in sagas.values()})
        observations = [
            Observation(instance_id, each.event_id, step, role, each.at, _reason(each, role), each.aggregate_id)
            for key, (instance_id, version) in sagas.items()
            for each in seen[key]
            for step, role in self._roles(key[0], version, each.event_type)
            if (instance_id, step, role) not in often
        ]
        for start in range(0, len(observations), 1000):
            facts.observe(observations[start : start + 1000], clock.now())
        return {instance_id for instance_id, _ in sagas.values()}

    def _look(self, events: Iterable[Event], seen: dict[Key, list[Seen]], only: set[Key] | None = None) -> None:
        for event in events:
            document = Document(event.correlation_id, event.payload)
            for name in self._registry.names_by_type.get(event.event_type, ()):
                definition = self._registry.latest[name]
                key = document.key(definition.correlation)
                if key is None:
                    log(Fact.WORKFLOW_EVENT_UNUSABLE, event_uid=str(event.uid), saga_type=name)
                elif only is None or (name, key) in only:
                    reason = document.text(definition.error, 500)
                    aggregate_id = document.key(definition.aggregate)
                    seen[name, key].append(Seen(event.id, event.event_type, event.created_at, aggregate_id, reason))

    def _begins(self, key: Key, seen: Iterable[Seen]) -> bool:
        return any(each.event_type in self._registry.latest[key[0]].roles for each in seen)

    def _look_back(self, unborn: Sequence[Key], seen: dict[Key, list[Seen]], before: int) -> None:
        """What happened before the hub began to listen belongs to the saga too: half of one would be misjudged.

        Only what is older than all that is at hand: the rest comes, or has come, by the inbox.
        """
        keys = {key for key in unborn if self._registry.latest[key[0]].correlation == CORRELATION_ID}
        if not keys:
            return
        types = {event_type for name, _ in keys for event_type in self._registry.latest[name].roles}
        past = Event.objects.filter(correlation_id__in={key for _, key in keys}, event_type__in=types, id__lt=before)
        ids = list(past.order_by("id").values_list("id", flat=True)[:MOST_HISTORY])
        for start in range(0, len(ids), PIECE):
            self._look(Event.objects.filter(id__in=ids[start : start + PIECE]), seen, keys)

    def _give_birth(self, unborn: Sequence[Key]) -> None:
        latest = [self._registry.latest[name] for name in {name for name, _ in unborn}]
        new = [each for each in latest if (each.name, each.version) not in self._remembered]
        if new:
            used.remember(new)
            self._remembered |= {(each.name, each.version) for each in new}
        rows = [row(self._registry.latest[name], key) for name, key in unborn]
        for start in range(0, len(rows), 1000):
            insert_new(Instance, rows[start : start + 1000], key=("saga_type", "correlation_key"))

    def _roles(self, name: str, version: int, event_type: str) -> list[tuple[str, str]]:
        """By the version that the saga was born with."""
        definition: Definition | None = self._registry.get(name, version)
        return definition.roles.get(event_type, []) if definition else []


def _reason(seen: Seen, role: str) -> str:
    return seen.reason if role in (FAILURE, UNDO_FAILED) else ""


def _existing(keys: Iterable[Key]) -> dict[Key, tuple[int, int]]:
    """(type, correlation key) → (id, version of the definition)."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, key in keys:
        by_name[name].append(key)
    found: dict[Key, tuple[int, int]] = {}
    for name, wanted in by_name.items():
        rows = Instance.objects.filter(saga_type=name, correlation_key__in=wanted)
        for key, id, version in rows.values_list("correlation_key", "id", "definition_version"):
            found[name, key] = (id, version)
    return found


def _lease(batch_size: int) -> list[int]:
    def take() -> list[int]:
        now = clock.now()
        free = WorkflowInbox.objects.filter(Q(lease_until=None) | Q(lease_until__lt=now)).order_by("event_id")
        ids = list(free.select_for_update(skip_locked=True).values_list("event_id", flat=True)[:batch_size])
        rows = [{"event_id": id, "lease_until": now + LEASE} for id in ids]
        update_each(WorkflowInbox, rows, match=("event_id",), where="1 = 1")
        return ids

    return in_transaction(take)


def _remove(event_ids: Sequence[int]) -> None:
    """Counted with their removal, and so once, however often they were looked at."""
    removed = delete_each(WorkflowInbox, event_ids)
    totals.add({(totals.WORKFLOW_EVENTS, ""): removed})
