"""Writing facts, and reading them back for the fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from webhookhub.db.bulk import insert_new

from . import state
from .models import Fact
from .state import EMITTED, EVENT, HUB, Decision, Effect

MAX_REPEATS = 20

# Run, step and role.
Key = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Observation:
    """What an event reports about a step."""

    instance_id: int
    event_id: int
    step: str
    role: str
    at: datetime
    detail: str = ""
    aggregate_id: str | None = None


def fact_row(instance_id: int, step: str, role: str, origin: str, at: datetime, **columns: Any) -> dict[str, Any]:
    """All columns of a fact. Rows of one statement must have the same columns."""
    return {
        "instance_id": instance_id,
        "event_id": None,
        "step": step,
        "role": role,
        "origin": origin,
        "idempotency_key": None,
        "decision_no": None,
        "actor": "",
        "reason": "",
        "detail": "",
        "aggregate_id": None,
        "occurred_at": at,
        "recorded_at": at,
        **columns,
    }


def observe(observations: Sequence[Observation], now: datetime) -> int:
    """Write what events report; a repetition changes nothing. Returns how many facts are new."""
    rows = [
        fact_row(
            each.instance_id,
            each.step,
            each.role,
            EVENT,
            each.at,
            event_id=each.event_id,
            detail=each.detail,
            aggregate_id=each.aggregate_id,
            recorded_at=now,
        )
        for each in observations
    ]
    return insert_new(Fact, rows, key=("instance_id", "event_id", "step", "role"))


def decide(decisions: Sequence[tuple[int, int, Decision]], now: datetime) -> int:
    """Write decisions (run, number, decision). A number that is taken means that another process has decided."""
    rows = [
        fact_row(id, decision.step, decision.role, HUB, now, decision_no=number, detail=decision.detail())
        for id, number, decision in decisions
    ]
    return insert_new(Fact, rows, key=("instance_id", "decision_no"))


def note_published(published: Sequence[tuple[int, int, Effect]], now: datetime) -> int:
    """Record the events (run, event, effect) that were published."""
    rows = [
        fact_row(id, effect.step, EMITTED, HUB, now, event_id=event_id, detail=effect.kind)
        for id, event_id, effect in published
    ]
    return insert_new(Fact, rows, key=("instance_id", "event_id", "step", "role"))


def of(instance_ids: Collection[int]) -> dict[int, list[state.Fact]]:
    """The facts of these runs, in the form that the fold takes."""
    found: dict[int, list[state.Fact]] = defaultdict(list)
    rows = Fact.objects.filter(instance_id__in=instance_ids).values_list(
        "instance_id", "role", "step", "occurred_at", "origin", "detail", "aggregate_id", "decision_no"
    )
    for instance_id, role, step, at, origin, detail, aggregate_id, decision_no in rows:
        found[instance_id].append(state.Fact(role, step, at, origin, detail, aggregate_id, decision_no))
    return found


def without_repeats(observations: Sequence[Observation]) -> list[Observation]:
    """At most MAX_REPEATS of each (run, step, role), stored ones included: those with the lowest event ids.

    Otherwise a producer that repeats itself under one correlation id would make each fold longer.
    """
    groups: dict[Key, list[Observation]] = defaultdict(list)
    for each in observations:
        groups[each.instance_id, each.step, each.role].append(each)
    largest = max(map(len, groups.values()), default=0)
    stored = _stored(_repeated({each.instance_id for each in observations}, MAX_REPEATS - largest + 1))
    kept: list[Observation] = []
    for key, group in groups.items():
        known = stored.get(key, set())
        new = sorted((each for each in group if each.event_id not in known), key=lambda each: each.event_id)
        kept += new[: max(0, MAX_REPEATS - len(known))]
    return kept


def _repeated(instance_ids: Collection[int], times: int) -> set[Key]:
    """What events have reported at least so often; usually nothing."""
    rows = Fact.objects.filter(instance_id__in=instance_ids, event__isnull=False).order_by()
    repeated = rows.values_list("instance_id", "step", "role").annotate(times=Count("id")).filter(times__gte=times)
    return {(instance_id, step, role) for instance_id, step, role, _ in repeated}


def _stored(repeated: Collection[Key]) -> dict[Key, set[int]]:
    """(run, step, role) → the events that are stored for it."""
    if not repeated:
        return {}
    found: dict[Key, set[int]] = defaultdict(set)
    rows = Fact.objects.filter(instance_id__in={instance_id for instance_id, _, _ in repeated}, event__isnull=False)
    for instance_id, step, role, event_id in rows.values_list("instance_id", "step", "role", "event_id"):
        if event_id is not None and (instance_id, step, role) in repeated:
            found[instance_id, step, role].add(event_id)
    return found
