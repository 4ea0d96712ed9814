"""Events from the inbox become facts of runs; runs with new facts or a passed deadline are brought up to date."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from events.models import Event
from webhookhub.db import clock
from webhookhub.db.bulk import delete_each, insert_new, update_each
from webhookhub.db.exists import Condition
from webhookhub.db.retry import in_transaction
from webhookhub.stats import counters

from . import facts, matching, versions
from .advance import UnknownDefinition, advance, require, set_aside
from .definition import Definition
from .facts import Row
from .matching import Key, Match, Run
from .models import Instance, WorkflowInbox, WorkflowTouched
from .registry import Registry
from .services import new_run
from .state import OPEN

# Longer than a batch takes. Another tracker takes over the events of a killed one after this time.
LEASE = timedelta(seconds=10)
# Payloads in memory at a time.
CHUNK = 200


class Tracker:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._stored: set[tuple[str, int]] = set()

    def track(self, batch_size: int) -> int:
        """Track one batch of events; returns their number. Leased first, removed last: a crash repeats the batch."""
        leased = _lease(batch_size)
        if leased:
            self._registry = versions.up_to_date(self._registry)
            try:
                runs = self._record(leased)
            except UnknownDefinition:
                # Another process created a run in a newer version after the refresh above. It was stored before the
                # run: a version that is still unknown then is not one of ours, and its runs stop no others.
                self._registry = versions.up_to_date(self._registry)
                runs = self._record(leased, lenient=True)
            advance(runs, self._registry)
            in_transaction(lambda: _remove(leased))
        return len(leased)

    def touch(self, batch_size: int) -> int:
        """Fold one batch of facts that services and operators recorded; returns their number."""
        rows = list(WorkflowTouched.objects.order_by("fact_id").values_list("fact_id", "instance_id")[:batch_size])
        if rows:
            self._registry = versions.up_to_date(self._registry)
            advance([instance_id for _, instance_id in rows], self._registry)
            delete_each(WorkflowTouched, [fact_id for fact_id, _ in rows])
        return len(rows)

    def expire(self, batch_size: int) -> int:
        """Advance one batch of overdue runs of each open status; returns how many rows changed."""
        horizon = _horizon()
        due = [Instance.objects.due(status, horizon).values_list("id", flat=True)[:batch_size] for status in OPEN]
        ids = [id for batch in due for id in batch]
        if not ids:
            return 0
        self._registry = versions.up_to_date(self._registry)
        return advance(ids, self._registry, horizon=horizon)

    def _record(self, event_ids: Sequence[int], *, lenient: bool = False) -> set[int]:
        """Write the facts of these events; returns the ids of their runs."""
        ids: set[int] = set()
        for start in range(0, len(event_ids), CHUNK):
            ids |= self._record_chunk(event_ids[start : start + CHUNK], min(event_ids), lenient)
        return ids

    def _record_chunk(self, event_ids: Sequence[int], first: int, lenient: bool) -> set[int]:
        now, registry = clock.now(), self._registry
        matches = matching.match(registry, event_ids, now)
        runs = matching.existing({match.key for match in matches})
        new = {
            match.key
            for match in matches
            if match.key not in runs and matching.creates(registry, match.key[0], match.event.event_type)
        }
        # Also runs whose creation was interrupted: their history may not have been written.
        young = new | {key for key, run in runs.items() if run.is_new and key[0] in registry.latest}
        past = matching.history(registry, young, first) if young else []
        if new:
            self._create(new)
            runs |= matching.existing(new)
        # Before anything is written: an unknown version means that this process has to refresh its definitions.
        definitions = self._definitions(runs, lenient=lenient)
        runs = {key: run for key, run in runs.items() if key in definitions}
        young &= runs.keys()

        def read(matches: Sequence[Match], keys: Collection[Key]) -> list[Row]:
            own = (match for match in matches if match.key in keys)
            return [row for match in own for row in match.facts(runs[match.key].id, definitions[match.key], now)]

        rows = read(matches, runs)
        for start in range(0, len(past), CHUNK):
            rows += read(matching.match(registry, past[start : start + CHUNK], now), young)
        facts.observe(rows)
        return {run.id for run in runs.values()}

    def _definitions(self, runs: Mapping[Key, Run], *, lenient: bool) -> dict[Key, Definition]:
        """The definition of each run. `lenient` leaves out the runs whose version is not known."""
        definitions = {}
        for key, run in runs.items():
            try:
                definitions[key] = require(self._registry, key[0], run.version)
            except UnknownDefinition as error:
                if not lenient:
                    raise
                set_aside({"saga_type": key[0], "correlation_id": key[1]}, error)
        return definitions

    def _create(self, keys: Collection[Key]) -> None:
        """Insert the runs in the version in force, which is stored first."""
        latest = self._registry.latest
        unstored = {latest[name] for name, _ in keys if latest[name].key not in self._stored}
        if unstored:
            versions.remember(unstored)
            self._stored |= {definition.key for definition in unstored}
        rows = [new_run(latest[name], key) for name, key in sorted(keys)]
        insert_new(Instance, rows, key=("saga_type", "correlation_key"))


# There is an event or a fact to track, or a run whose deadline has passed.
WORK = (
    Condition(WorkflowInbox),
    Condition(WorkflowTouched),
    *(Condition(Instance, "status = %s AND deadline <= {now}", status) for status in OPEN),
)


def _horizon() -> datetime:
    """The time up to which all events are tracked: no run times out while its event waits in the inbox."""
    now = clock.now()
    first = WorkflowInbox.objects.order_by("event_id").values_list("event_id", flat=True).first()
    if first is None:
        return now
    created_at = Event.objects.filter(id=first).values_list("created_at", flat=True).first()
    return min(now, matching.plausible(created_at, now))


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
    """Counted with their removal, and so once, however often they were read."""
    removed = delete_each(WorkflowInbox, event_ids)
    counters.add({(counters.WORKFLOW_EVENTS, ""): removed})
