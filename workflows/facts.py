"""How facts are written and read back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from webhookhub.db.bulk import insert_new

from . import state
from .models import Fact
from .state import Decision, Effect
from .words import EMITTED, EVENT, HUB

MOST_REPEATS = 20

# Saga, step and role.
Said = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Observation:
    """What an event says of a step."""

    instance_id: int
    event_id: int
    step: str
    role: str
    at: datetime
    detail: str = ""
    aggregate_id: str | None = None


def observe(observations: Sequence[Observation], now: datetime) -> int:
    """Write what events say; a repetition changes nothing. Returns how many facts are new."""
    rows = [
        {
            "instance_id": each.instance_id,
            "event_id": each.event_id,
            "step": each.step,
            "role": each.role,
            "origin": EVENT,
            "idempotency_key": None,
            "decision_no": None,
            "actor": "",
            "reason": "",
            "detail": each.detail,
            "aggregate_id": each.aggregate_id,
            "occurred_at": each.at,
            "recorded_at": now,
        }
        for each in observations
    ]
    return insert_new(Fact, rows, key=("instance_id", "event_id", "step", "role"))


def without_repeats(observations: Sequence[Observation]) -> list[Observation]:
    """Of what events say of one step again and again, no more than MOST_REPEATS with those that are kept: the first
    by their numbers, in whatever order they are given and however often they are looked at.

    Otherwise a producer that repeats itself without end under one correlation id would make each fold longer.
    """
    said: dict[Said, list[Observation]] = defaultdict(list)
    for each in observations:
        said[each.instance_id, each.step, each.role].append(each)
    most = max(map(len, said.values()), default=0)
    kept = _kept(_often({each.instance_id for each in observations}, MOST_REPEATS - most + 1))
    found: list[Observation] = []
    for what, given in said.items():
        known = kept.get(what, set())
        new = sorted((each for each in given if each.event_id not in known), key=lambda each: each.event_id)
        found += new[: max(0, MOST_REPEATS - len(known))]
    return found


def _often(instance_ids: Collection[int], times: int) -> set[Said]:
    """What events have said so often of these already; mostly nothing."""
    rows = Fact.objects.filter(instance_id__in=instance_ids, event__isnull=False).order_by()
    often = rows.values_list("instance_id", "step", "role").annotate(times=Count("id")).filter(times__gte=times)
    return {(instance_id, step, role) for instance_id, step, role, _ in often}


def _kept(often: Collection[Said]) -> dict[Said, set[int]]:
    """The events that have said it."""
    if not often:
        return {}
    found: dict[Said, set[int]] = defaultdict(set)
    rows = Fact.objects.filter(instance_id__in={instance_id for instance_id, _, _ in often}, event__isnull=False)
    for instance_id, step, role, event_id in rows.values_list("instance_id", "step", "role", "event_id"):
        if event_id is not None and (instance_id, step, role) in often:
            found[instance_id, step, role].add(event_id)
    return found


def decide(decisions: Sequence[tuple[int, int, Decision]], now: datetime) -> int:
    """Write decisions (instance, number, decision). Where the number is taken, another has decided and this is void."""
    rows = [
        {
            "instance_id": instance_id,
            "event_id": None,
            "step": decision.step,
            "role": decision.role,
            "origin": HUB,
            "idempotency_key": None,
            "decision_no": number,
            "actor": "",
            "reason": "",
            "detail": decision.detail(),
            "aggregate_id": None,
            "occurred_at": now,
            "recorded_at": now,
        }
        for instance_id, number, decision in decisions
    ]
    return insert_new(Fact, rows, key=("instance_id", "decision_no"))


def note_published(published: Sequence[tuple[int, int, Effect]], now: datetime) -> int:
    """Write down (instance, event, effect) what was published."""
    rows = [
        {
            "instance_id": instance_id,
            "event_id": event_id,
            "step": effect.step,
            "role": EMITTED,
            "origin": HUB,
            "idempotency_key": None,
            "decision_no": None,
            "actor": "",
            "reason": "",
            "detail": effect.kind,
            "aggregate_id": None,
            "occurred_at": now,
            "recorded_at": now,
        }
        for instance_id, event_id, effect in published
    ]
    return insert_new(Fact, rows, key=("instance_id", "event_id", "step", "role"))


def of(instance_ids: Collection[int]) -> dict[int, list[state.Fact]]:
    """The facts of these sagas, in the form that is folded."""
    found: dict[int, list[state.Fact]] = defaultdict(list)
    rows = Fact.objects.filter(instance_id__in=instance_ids).values_list(
        "instance_id", "role", "step", "occurred_at", "origin", "detail", "aggregate_id", "decision_no"
    )
    for instance_id, role, step, at, origin, detail, aggregate_id, number in rows:
        found[instance_id].append(state.Fact(role, step, at, origin, detail, aggregate_id, number))
    return found
