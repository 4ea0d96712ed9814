"""Bring runs up to date with their facts: decide, publish, write the row, in this order.

The decision is a fact, stored before anything is published. The row is written last: if the process dies before that,
the inbox, the touched fact or the deadline still asks for this work. Repeating any part of it changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from webhookhub.db import clock
from webhookhub.db.bulk import update_each
from webhookhub.db.retry import in_transaction
from webhookhub.logs import Log, log
from webhookhub.stats import counters, workflow_periods
from webhookhub.stats.histogram import LATENCY_SECONDS, bucket

from . import events, facts
from .definition import Definition
from .facts import MAX_ROWS
from .fold import expire, fold
from .models import Instance
from .registry import Registry
from .state import (
    COMPENSATED,
    COMPLETED,
    DECIDED,
    FAILED,
    IN_PROGRESS,
    OBSERVED,
    RUNNING,
    TERMINAL,
    TIME_OUTS,
    WAITING,
    WERE_DONE,
    Decision,
    Fact,
    State,
    UnreadableFact,
)

# Each lost round means that another process has advanced the run.
MAX_ROUNDS = 100
# The columns of a run that has ended, as the trigger trg_instance_changed keeps them.
FROZEN = {
    "aggregate_id",
    "current_step",
    "status",
    "started_at",
    "completed_at",
    "error_message",
    "compensation_started_at",
    "deadline",
}
DURATION_LABELS = (*(f"{bound:g}" for bound in LATENCY_SECONDS), counters.MORE)

Change = tuple[Instance, State]


class UnknownDefinition(Exception):
    """A run has a version that this process does not know, because another process runs a newer program."""


class _Overtaken(Exception):
    """Another process has written one of the rows since it was read."""


def advance(instance_ids: Collection[int], registry: Registry, *, horizon: datetime | None = None) -> int:
    """Fold these runs; with `horizon`, also expire deadlines up to that time. Returns how many rows changed."""
    ids = sorted(set(instance_ids))
    return sum(_advance(ids[start : start + MAX_ROWS], registry, horizon) for start in range(0, len(ids), MAX_ROWS))


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
    runs = list(Instance.objects.filter(id__in=ids).order_by("id"))
    facts_of = facts.of(ids)
    now = clock.now()
    decisions, settled = [], []
    for run in runs:
        own = facts_of[run.id]
        if not any(fact.role in OBSERVED for fact in own):
            continue  # just created: the process that writes its first fact folds it
        folded = _fold(run, own, registry, horizon)
        if folded is None:
            continue
        state, decision = folded
        if decision is not None:
            decisions.append((run.id, len(state.decisions) + 1, decision))
        else:
            settled.append((run, state))
    if decisions:
        facts.decide(decisions, now)
    events.publish([(run, state) for run, state in settled if state.effects], now)
    changes = [(run, state) for run, state in settled if _may_be_written(run, differences(run, state))]
    again = [instance_id for instance_id, _, _ in decisions]
    try:
        in_transaction(lambda: _store(changes, now))
    except _Overtaken:
        return sorted([*again, *(run.id for run, _ in changes)]), 0
    _log(changes)
    return again, len(changes)


def _fold(
    run: Instance, own: Sequence[Fact], registry: Registry, horizon: datetime | None
) -> tuple[State, Decision | None] | None:
    """The state of a run and the next decision about it; None if its rows cannot be read, which stops no other run."""
    try:
        definition = require(registry, run.saga_type, run.definition_version)
        _require_numbered(own)
        state = fold(definition, own)
    except (UnknownDefinition, UnreadableFact) as error:
        set_aside(run.log_fields, error)
        return None
    return state, state.next or (expire(definition, own, horizon) if horizon else None)


def _require_numbered(own: Sequence[Fact]) -> None:
    numbers = sorted(fact.decision_no or 0 for fact in own if fact.role in DECIDED)
    if numbers != list(range(1, len(numbers) + 1)):
        raise UnreadableFact(f"its decisions have the numbers {numbers}")


def _may_be_written(run: Instance, changed: Collection[str]) -> bool:
    """Whether any column differs. A trigger refuses to change the end of a run, which another program has written."""
    if run.status in TERMINAL and (frozen := sorted(FROZEN & set(changed))):
        set_aside(run.log_fields, ValueError(f"its row has ended and contradicts its facts: {', '.join(frozen)}"))
        return False
    return bool(changed)


def set_aside(run: Mapping[str, Any], error: Exception) -> None:
    log(Log.WORKFLOW_RUN_INVALID, **run, error=f"{type(error).__name__}: {error}")


def require(registry: Registry, saga_type: str, version: int) -> Definition:
    definition = registry.get(saga_type, version)
    if definition is None:
        raise UnknownDefinition(
            f"{saga_type} version {version} is not known to this process: "
            "restart it with the program and the definitions of the other processes"
        )
    return definition


def differences(run: Instance, state: State) -> dict[str, Any]:
    """Column → value, for each column of the row that does not agree with the state."""
    return {name: value for name, value in state.columns().items() if getattr(run, name) != value}


def _store(changes: Sequence[Change], now: datetime) -> None:
    """Compare-and-set: all of these rows with their counters, or none."""
    if not changes:
        return
    counts: Counter[tuple[str, str]] = Counter()
    for run, state in changes:
        _count(counts, run, state)
    rows = [{"id": run.id, "version": run.version, **state.columns(), "updated_at": now} for run, state in changes]
    increment = {"version": f"{Instance._meta.db_table}.version + 1"}
    if update_each(Instance, rows, match=("id", "version"), where="1 = 1", values=increment) != len(rows):
        raise _Overtaken
    counters.add(counts)
    workflow_periods.add(counts, now)


def _count(counts: Counter[tuple[str, str]], run: Instance, state: State) -> None:
    name = run.saga_type
    if run.version == 0:
        counts[counters.WORKFLOWS_STARTED, name] += 1
    if state.by_hand and not run.by_hand:
        counts[counters.WORKFLOWS_BY_HAND, name] += 1
    before = run.step_states
    for step, step_state in state.steps.items():
        if step_state in WERE_DONE and before.get(step) not in WERE_DONE:
            counts[counters.WORKFLOW_STEPS, f"{name}/{step}"] += 1
    if state.status in TERMINAL and run.status not in TERMINAL:
        counts[counters.WORKFLOWS_ENDED, f"{name}/{state.status}"] += 1
        if state.compensation_started_at:
            result = "succeeded" if state.status == COMPENSATED else "failed"
            counts[counters.WORKFLOW_COMPENSATIONS, f"{name}/{result}"] += 1
        if state.status == COMPLETED and state.completed_at:
            duration = max(timedelta(), state.completed_at - state.started_at)
            counts[counters.WORKFLOW_DURATIONS, _bucket(name, duration)] += 1
            counts[counters.WORKFLOW_DURATION_SUM, name] += duration // timedelta(microseconds=1)
    detected_at = state.compensation_started_at or (state.completed_at if state.status != COMPLETED else None)
    if detected_at and run.status == IN_PROGRESS:
        # Since the event that reported it, or since the deadline.
        since = state.failed_at or run.deadline or detected_at
        delay = max(timedelta(), detected_at - since)
        counts[counters.WORKFLOW_DETECTIONS, _bucket(name, delay)] += 1
        counts[counters.WORKFLOW_DETECTION_SUM, name] += delay // timedelta(microseconds=1)


def _bucket(saga_type: str, duration: timedelta) -> str:
    return f"{saga_type}/{DURATION_LABELS[bucket(LATENCY_SECONDS, duration.total_seconds())]}"


MESSAGES = {COMPLETED: Log.WORKFLOW_ENDED, COMPENSATED: Log.WORKFLOW_ENDED, FAILED: Log.WORKFLOW_FAILED}


def _log(changes: Sequence[Change]) -> None:
    """Each transition once: by the process that has written the row."""
    for run, state in changes:
        fields = {**run.log_fields, "delivery_status": state.status}
        for decision in _new_decisions(run, state):
            if decision.cause in TIME_OUTS:
                log(Log.WORKFLOW_TIMED_OUT, **fields, step=decision.step, cause=decision.cause)
        before = run.step_states
        for step, step_state in state.steps.items():
            if step_state not in (WAITING, RUNNING, before.get(step)):
                log(Log.WORKFLOW_STEP_CHANGED, **fields, step=step, step_status=step_state)
        if run.status != state.status or run.version == 0:
            message = MESSAGES.get(state.status, Log.WORKFLOW_ADVANCED)
            log(message, **fields, step=state.current_step, anomaly=bool(state.anomaly))
        if state.needs_operator and not run.needs_operator:
            log(Log.WORKFLOW_NEEDS_OPERATOR, **fields, step=state.current_step)


def _new_decisions(run: Instance, state: State) -> Sequence[Decision]:
    """The decisions that the row did not contain before."""
    if run.status in TERMINAL:
        return ()
    return state.decisions if run.status == IN_PROGRESS else state.decisions[1:]
