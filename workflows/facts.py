"""Writing facts, and reading them back for the fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from webhookhub.db.bulk import insert_new

from . import state
from .models import Fact
from .state import EMITTED, HUB, Decision, Effect

MAX_REPEATS = 20
# Rows of one statement, of up to sixteen columns: below the parameter limit of every engine.
MAX_ROWS = 1000
EVENT_KEY = ("instance_id", "event_id", "step", "role")
Row = dict[str, Any]


def fact_row(instance_id: int, step: str, role: str, origin: str, at: datetime, **columns: Any) -> Row:
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


def observe(rows: Sequence[Row]) -> None:
    """Write what events report; a repetition changes nothing."""
    new = without_repeats(rows)
    for start in range(0, len(new), MAX_ROWS):
        insert_new(Fact, new[start : start + MAX_ROWS], key=EVENT_KEY)


def decide(decisions: Sequence[tuple[int, int, Decision]], now: datetime) -> None:
    """Write decisions (run, number, decision). A number that is taken means that another process has decided."""
    rows = [
        fact_row(id, decision.step, decision.role, HUB, now, decision_no=number, detail=decision.detail())
        for id, number, decision in decisions
    ]
    insert_new(Fact, rows, key=("instance_id", "decision_no"))


def note_published(published: Sequence[tuple[int, int, Effect]], now: datetime) -> None:
    """Record the events (run, event, effect) that were published."""
    rows = [
        fact_row(id, effect.step, EMITTED, HUB, now, event_id=event_id, detail=effect.kind)
        for id, event_id, effect in published
    ]
    insert_new(Fact, rows, key=EVENT_KEY)


def of(instance_ids: Collection[int]) -> dict[int, list[state.Fact]]:
    """The facts of these runs, in the form that the fold takes."""
    facts: dict[int, list[state.Fact]] = defaultdict(list)
    rows = Fact.objects.filter(instance_id__in=instance_ids).values_list(
        "instance_id", "role", "step", "occurred_at", "origin", "detail", "aggregate_id", "decision_no"
    )
    for instance_id, role, step, at, origin, detail, aggregate_id, decision_no in rows:
        facts[instance_id].append(_fact(role, step, at, origin, detail, aggregate_id, decision_no))
    return facts


def read(row: Fact) -> state.Fact:
    """A fact in the form that the fold takes."""
    return _fact(row.role, row.step, row.occurred_at, row.origin, row.detail, row.aggregate_id, row.decision_no)


def _fact(
    role: str, step: str, at: datetime, origin: str, detail: str, aggregate_id: str | None, decision_no: int | None
) -> state.Fact:
    if role in state.OBSERVED:
        # Another program may have written control characters by SQL, which no event of the hub may have.
        detail, aggregate_id = state.printable(detail), state.printable(aggregate_id or "") or None
    return state.Fact(role, step, at, origin, detail, aggregate_id, decision_no)


def without_repeats(rows: Sequence[Row]) -> list[Row]:
    """The rows that are not stored yet, up to MAX_REPEATS of each (run, step, role): those with the lowest event ids.

    Otherwise a producer that repeats itself under one correlation id would make each fold longer.
    """
    event_ids: dict[tuple[int, str, str], set[int]] = defaultdict(set)
    stored = Fact.objects.filter(instance_id__in={row["instance_id"] for row in rows}, event__isnull=False)
    for instance_id, step, role, event_id in stored.values_list("instance_id", "step", "role", "event_id"):
        event_ids[instance_id, step, role].add(event_id or 0)
    new = []
    for row in sorted(rows, key=lambda row: row["event_id"]):
        same = event_ids[row["instance_id"], row["step"], row["role"]]
        if row["event_id"] not in same and len(same) < MAX_REPEATS:
            same.add(row["event_id"])
            new.append(row)
    return new
