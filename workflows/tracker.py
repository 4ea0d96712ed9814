"""One tracking step: events from the inbox become facts of sagas, and these are brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.models import Q

from webhookhub.db import clock
from webhookhub.db.bulk import delete_each, update_each
from webhookhub.db.retry import in_transaction
from webhookhub.stats import counters

from . import beginnings, collisions, facts, versions
from .create import Births, TakingOver
from .facts import Observation
from .matching import Finding, existing, findings, just_born, settled, unborn
from .models import WorkflowInbox, WorkflowTouched
from .progress import UnknownDefinition, advance, require
from .registry import Registry
from .sightings import Seen, Sightings
from .words import FAILURE, UNDO_FAILED

# Longer than a batch takes. A tracker that was killed leaves its events to others after this.
LEASE = timedelta(seconds=10)


class Tracker:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._births = Births()

    def track(self, batch_size: int) -> int:
        """One batch of events; returns how many. Leased first, removed last: a crash in between repeats it."""
        leased = _lease(batch_size)
        if leased:
            self._registry = versions.up_to_date(self._registry)
            try:
                sagas = self._recorded(leased)
            except TakingOver:
                return len(leased)  # they come back when the lease has ended
            advance(sagas, self._registry)
            in_transaction(lambda: _remove(leased))
        return len(leased)

    def touch(self, batch_size: int) -> int:
        """One batch of facts that were told; returns how many."""
        told = list(WorkflowTouched.objects.order_by("fact_id").values_list("fact_id", "instance_id")[:batch_size])
        if told:
            self._registry = versions.up_to_date(self._registry)
            advance([instance_id for _, instance_id in told], self._registry)
            delete_each(WorkflowTouched, [fact_id for fact_id, _ in told])
        return len(told)

    def _recorded(self, event_ids: Sequence[int]) -> set[int]:
        try:
            return self._record(event_ids)
        except UnknownDefinition:
            # Begun by another process since that look, in a version that it has stored before.
            self._registry = versions.up_to_date(self._registry)
            return self._record(event_ids)

    def _record(self, event_ids: Sequence[int]) -> set[int]:
        """Facts from events; returns the sagas concerned."""
        sightings = Sightings(self._registry)
        sightings.look(event_ids)
        sagas = existing(sightings.seen)
        began = beginnings.keys(self._registry, sagas)
        new = unborn(self._registry, sightings.seen, sagas, findings(self._registry, sightings.seen, sagas, began))
        # Also for those whose birth was cut short: the past that was read for them then may not have been written.
        if young := [*new, *just_born(self._registry, sagas)]:
            sightings.look_back(young, min(event_ids))
        if new:
            self._births.give(self._registry, new)
            sagas |= existing(new)
        for (name, _), saga in sagas.items():
            # Before anything is removed: what a saga of an unknown version would have found is not lost.
            require(self._registry, name, saga.version)
        belonging = settled(findings(self._registry, sightings.seen, sagas, began))
        collisions.tell(self._registry, sightings.seen, sagas, belonging)
        observations = [
            Observation(saga.id, seen.event_id, step, role, seen.at, _reason(seen, role), seen.aggregate_id)
            for found in belonging
            for saga, seen in [(found.saga, found.seen)]
            for step, role in self._roles(found)
        ]
        new_ones = facts.without_repeats(observations)
        for start in range(0, len(new_ones), 1000):
            facts.observe(new_ones[start : start + 1000], clock.now())
        return {saga.id for saga in sagas.values()}

    def _roles(self, found: Finding) -> list[tuple[str, str]]:
        """By the version that the saga was born with."""
        definition = require(self._registry, found.key[0], found.saga.version)
        return definition.roles[found.seen.event_type]


def _reason(seen: Seen, role: str) -> str:
    return seen.reason if role in (FAILURE, UNDO_FAILED) else ""


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
    counters.add({(counters.WORKFLOW_EVENTS, ""): removed})
