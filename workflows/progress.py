"""Sagas brought up to date with their facts: decide, publish, write the row; in this order.

The decision is a fact, stored before anything is published. The row is written last, so that whatever called for this
(an event in the inbox, a fact that was told, a deadline in the row) still calls if the process dies before the end;
and to do any of it again changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Fact, log
from webhookhub.stats import counters

from . import counting, emission, facts
from .counting import Before
from .definition import Definition
from .events import Identity
from .fold import expire, fold
from .models import Instance
from .registry import Registry
from .state import State
from .words import OBSERVED, TERMINAL

ROWS = 1000  # a statement of sixteen columns stays below the number of parameters that every engine takes
# Each loss means that somebody else has moved the saga on; nobody loses this often.
MOST_ROUNDS = 100

Changed = tuple[Identity, Before, State]


class UnknownDefinition(Exception):
    """A saga was born with a definition that this process does not know: an older program, to be replaced."""


class _Overtaken(Exception):
    """Another process has written one of the rows since it was read."""


def advance(instance_ids: Collection[int], registry: Registry, *, horizon: datetime | None = None) -> int:
    """Bring these up to date; with `horizon`, also decide what was due until then. Returns how many rows changed."""
    left = sorted(set(instance_ids))
    changed = 0
    for start in range(0, len(left), ROWS):
        changed += _advance(left[start : start + ROWS], registry, horizon)
    return changed


def _advance(ids: Sequence[int], registry: Registry, horizon: datetime | None) -> int:
    left, changed = list(ids), 0
    for _ in range(MOST_ROUNDS):
        if not left:
            return changed
        left, stored = _round(left, registry, horizon)
        changed += stored
    raise RuntimeError(f"sagas {left[:10]} change faster than they can be written")


def _round(ids: Sequence[int], registry: Registry, horizon: datetime | None) -> tuple[list[int], int]:
    """One look at each; returns those that want another, and how many rows were written."""
    # The rows before the facts: whoever has read fewer facts has read an older row, and is refused.
    rows = _read(ids)
    known = facts.of(ids)
    now = clock.now()
    decisions, settled = [], []
    for saga, before, kept in rows:
        its = known[saga.id]
        if not any(fact.role in OBSERVED for fact in its):
            continue  # just born: its first fact is on its way, and whoever brings it comes here again
        definition = require(registry, saga.saga_type, saga.definition_version)
        state = fold(definition, its)
        decision = state.next or (expire(definition, its, horizon) if horizon else None)
        if decision is not None:
            decisions.append((saga.id, state.decisions + 1, decision))
        else:
            settled.append((saga, before, kept, state))
    if decisions:
        facts.decide(decisions, now)
    emission.emit([(saga, state) for saga, _, _, state in settled if state.effects], now)
    changes = [(saga, before, state) for saga, before, kept, state in settled if kept != projection(state)]
    again = [instance_id for instance_id, _, _ in decisions]
    try:
        in_transaction(lambda: _store(changes, now))
    except _Overtaken:
        return sorted([*again, *(saga.id for saga, _, _ in changes)]), 0
    _log(changes)
    return again, len(changes)


def require(registry: Registry, saga_type: str, version: int) -> Definition:
    found = registry.get(saga_type, version)
    if found is None:
        raise UnknownDefinition(
            f"{saga_type} version {version} is not known to this process: "
            "restart it with the program and the definitions that the others have"
        )
    return found


PROJECTED = (
    "aggregate_id",
    "current_step",
    "status",
    "started_at",
    "completed_at",
    "error_message",
    "compensation_started_at",
    "deadline",
    "steps",
    "anomaly",
    "needs_operator",
    "by_hand",
)


def _read(ids: Collection[int]) -> list[tuple[Identity, Before, tuple[Any, ...]]]:
    rows = Instance.objects.filter(id__in=ids).order_by("id").values_list(*Identity._fields, "version", *PROJECTED)
    found = []
    for row in rows:
        identity = Identity(*row[: len(Identity._fields)])
        version, kept = row[len(Identity._fields)], row[len(Identity._fields) + 1 :]
        named = dict(zip(PROJECTED, kept, strict=True))
        before = Before(named["status"], named["steps"], named["deadline"], named["by_hand"], version)
        found.append((identity, before, kept))
    return found


def projection(state: State) -> tuple[Any, ...]:
    """What the row says of a state, in the order of PROJECTED."""
    return (
        state.aggregate_id,
        state.current_step,
        state.status,
        state.started_at,
        state.completed_at,
        state.error_message,
        state.compensation_started_at,
        state.deadline,
        json.dumps(state.steps),
        state.anomaly,
        state.needs_operator,
        state.by_hand,
    )


def _store(changes: Sequence[Changed], now: datetime) -> None:
    """Compare-and-set: all of these rows, with what is counted of them, or none."""
    if not changes:
        return
    counts: Counter[tuple[str, str]] = Counter()
    rows = []
    for saga, before, state in changes:
        counting.count(counts, saga.saga_type, before, state)
        projected = dict(zip(PROJECTED, projection(state), strict=True))
        rows.append({"id": saga.id, "version": before.version, **projected, "updated_at": now})
    following = {"version": f"{Instance._meta.db_table}.version + 1"}
    if update_each(Instance, rows, match=("id", "version"), where="1 = 1", values=following) != len(rows):
        raise _Overtaken
    counters.add(counts)


def _log(changes: Sequence[Changed]) -> None:
    for saga, before, state in changes:
        if before.status != state.status or before.version == 0:
            log(
                Fact.WORKFLOW_ENDED if state.status in TERMINAL else Fact.WORKFLOW_MOVED,
                correlation_id=saga.correlation_key,
                saga=str(saga.saga_id),
                saga_type=saga.saga_type,
                status=state.status,
                step=state.current_step,
                anomaly=bool(state.anomaly),
            )
