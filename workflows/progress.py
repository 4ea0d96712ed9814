"""Bring runs up to date with their facts: decide, publish, write the row, in this order.

The decision is a fact, stored before anything is published. The row is written last: if the process dies before that,
the inbox, the touched fact or the deadline still asks for this work. Repeating any part of it changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Log, log
from webhookhub.stats import counters
from webhookhub.stats.histogram import LATENCY_SECONDS, bucket

from . import events, facts
from .definition import Definition
from .events import Identity
from .fold import expire, fold
from .models import Instance
from .registry import Registry
from .state import COMPLETED, IN_PROGRESS, OBSERVED, STEP_DONE, STEP_UNDO_FAILED, STEP_UNDONE, TERMINAL, UNDOING, State

ROWS = 1000  # sixteen columns each: below the parameter limit of every engine
# Each lost round means that another process has advanced the run.
MAX_ROUNDS = 100
DURATION_LABELS = (*(f"{bound:g}" for bound in LATENCY_SECONDS), counters.MORE)
# Step states that mean that the step was done, whatever happened later.
WERE_DONE = (STEP_DONE, UNDOING, STEP_UNDONE, STEP_UNDO_FAILED)


class Before(NamedTuple):
    """The row before this change."""

    status: str
    steps: str
    deadline: datetime | None
    by_hand: bool
    version: int


Changed = tuple[Identity, Before, State]


class UnknownDefinition(Exception):
    """A run has a version that this process does not know, because another process runs a newer program."""


class _Overtaken(Exception):
    """Another process has written one of the rows since it was read."""


def advance(instance_ids: Collection[int], registry: Registry, *, horizon: datetime | None = None) -> int:
    """Fold these runs; with `horizon`, also expire deadlines up to that time. Returns how many rows changed."""
    left = sorted(set(instance_ids))
    changed = 0
    for start in range(0, len(left), ROWS):
        changed += _advance(left[start : start + ROWS], registry, horizon)
    return changed


def _advance(ids: Sequence[int], registry: Registry, horizon: datetime | None) -> int:
    left, changed = list(ids), 0
    for _ in range(MAX_ROUNDS):
        if not left:
            return changed
        left, stored = _round(left, registry, horizon)
        changed += stored
    raise RuntimeError(f"runs {left[:10]} change faster than they can be written")


def _round(ids: Sequence[int], registry: Registry, horizon: datetime | None) -> tuple[list[int], int]:
    """Returns the ids that need another round, and how many rows were written."""
    # Rows before facts: a process that has read fewer facts has read an older row, and its write is refused.
    rows = _read(ids)
    known = facts.of(ids)
    now = clock.now()
    decisions, settled = [], []
    for run, before, row in rows:
        its = known[run.id]
        if not any(fact.role in OBSERVED for fact in its):
            continue  # just created: the process that writes its first fact folds it
        definition = require(registry, run.saga_type, run.definition_version)
        state = fold(definition, its)
        decision = state.next or (expire(definition, its, horizon) if horizon else None)
        if decision is not None:
            decisions.append((run.id, state.decisions + 1, decision))
        else:
            settled.append((run, before, row, state))
    if decisions:
        facts.decide(decisions, now)
    events.publish([(run, state) for run, _, _, state in settled if state.effects], now)
    changes = [(run, before, state) for run, before, row, state in settled if row != projection(state)]
    again = [instance_id for instance_id, _, _ in decisions]
    try:
        in_transaction(lambda: _store(changes, now))
    except _Overtaken:
        return sorted([*again, *(run.id for run, _, _ in changes)]), 0
    _log(changes)
    return again, len(changes)


def require(registry: Registry, saga_type: str, version: int) -> Definition:
    definition = registry.get(saga_type, version)
    if definition is None:
        raise UnknownDefinition(
            f"{saga_type} version {version} is not known to this process: "
            "restart it with the program and the definitions of the other processes"
        )
    return definition


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
    width = len(Identity._fields)
    result = []
    for row in rows:
        version, columns = row[width], row[width + 1 :]
        named = dict(zip(PROJECTED, columns, strict=True))
        before = Before(named["status"], named["steps"], named["deadline"], named["by_hand"], version)
        result.append((Identity(*row[:width]), before, columns))
    return result


def projection(state: State) -> tuple[Any, ...]:
    """The columns of the row, in the order of PROJECTED."""
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
    """Compare-and-set: all of these rows with their counters, or none."""
    if not changes:
        return
    counts: Counter[tuple[str, str]] = Counter()
    rows = []
    for run, before, state in changes:
        _count(counts, run.saga_type, before, state)
        projected = dict(zip(PROJECTED, projection(state), strict=True))
        rows.append({"id": run.id, "version": before.version, **projected, "updated_at": now})
    increment = {"version": f"{Instance._meta.db_table}.version + 1"}
    if update_each(Instance, rows, match=("id", "version"), where="1 = 1", values=increment) != len(rows):
        raise _Overtaken
    counters.add(counts)


def _count(counts: Counter[tuple[str, str]], saga_type: str, before: Before, state: State) -> None:
    if before.version == 0:
        counts[counters.WORKFLOWS_STARTED, saga_type] += 1
    if state.by_hand and not before.by_hand:
        counts[counters.WORKFLOWS_BY_HAND, saga_type] += 1
    old_steps: dict[str, str] = json.loads(before.steps)
    for step, step_state in state.steps.items():
        if step_state in WERE_DONE and old_steps.get(step) not in WERE_DONE:
            counts[counters.WORKFLOW_STEPS, f"{saga_type}/{step}"] += 1
    if state.status in TERMINAL and before.status not in TERMINAL:
        counts[counters.WORKFLOWS_ENDED, f"{saga_type}/{state.status}"] += 1
        if state.status == COMPLETED and state.completed_at:
            taken = max(timedelta(), state.completed_at - state.started_at)
            counts[counters.WORKFLOW_DURATIONS, _bucket(saga_type, taken)] += 1
            counts[counters.WORKFLOW_DURATION_SUM, saga_type] += taken // timedelta(microseconds=1)
    found_at = state.compensation_started_at or (state.completed_at if state.status != COMPLETED else None)
    if found_at and before.status == IN_PROGRESS:
        # Since the event that reported it, or since the deadline.
        since = state.failed_at or before.deadline or found_at
        counts[counters.WORKFLOW_DETECTIONS, _bucket(saga_type, max(timedelta(), found_at - since))] += 1


def _bucket(saga_type: str, taken: timedelta) -> str:
    return f"{saga_type}/{DURATION_LABELS[bucket(LATENCY_SECONDS, taken.total_seconds())]}"


def _log(changes: Sequence[Changed]) -> None:
    for run, before, state in changes:
        if before.status != state.status or before.version == 0:
            log(
                Log.WORKFLOW_ENDED if state.status in TERMINAL else Log.WORKFLOW_ADVANCED,
                correlation_id=run.correlation_key,
                saga=str(run.saga_id),
                saga_type=run.saga_type,
                status=state.status,
                step=state.current_step,
                anomaly=bool(state.anomaly),
            )
