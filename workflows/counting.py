"""What is counted of sagas as they move on, in the transaction that writes it down."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import NamedTuple

from webhookhub.stats import counters
from webhookhub.stats.histogram import LATENCY_SECONDS, bucket

from .state import State
from .words import COMPLETED, STEP_DONE, STEP_UNDO_FAILED, STEP_UNDONE, TERMINAL, UNDOING

LABELS = (*(f"{bound:g}" for bound in LATENCY_SECONDS), counters.MORE)
WERE_DONE = (STEP_DONE, UNDOING, STEP_UNDONE, STEP_UNDO_FAILED)


class Before(NamedTuple):
    """What the row said until now."""

    status: str
    steps: str
    deadline: datetime | None
    by_hand: bool
    version: int


def count(counts: Counter[tuple[str, str]], saga_type: str, before: Before, state: State) -> None:
    if before.version == 0:
        counts[counters.WORKFLOWS_STARTED, saga_type] += 1
    if state.by_hand and not before.by_hand:
        counts[counters.WORKFLOWS_BY_HAND, saga_type] += 1
    known: dict[str, str] = json.loads(before.steps)
    for step, condition in state.steps.items():
        if condition in WERE_DONE and known.get(step) not in WERE_DONE:
            counts[counters.WORKFLOW_STEPS, f"{saga_type}/{step}"] += 1
    if state.status in TERMINAL and before.status not in TERMINAL:
        counts[counters.WORKFLOWS_ENDED, f"{saga_type}/{state.status}"] += 1
        if state.status == COMPLETED and state.completed_at:
            taken = max(timedelta(), state.completed_at - state.started_at)
            counts[counters.WORKFLOW_DURATIONS, _bucket(saga_type, taken)] += 1
            counts[counters.WORKFLOW_DURATION_SUM, saga_type] += taken // timedelta(microseconds=1)
    found_at = state.compensation_started_at or (state.completed_at if state.status != COMPLETED else None)
    if found_at and before.status not in TERMINAL and before.status == "IN_PROGRESS":
        # Since the event that told of it; or, if nothing told, since the deadline.
        since = state.failed_at or before.deadline or found_at
        counts[counters.WORKFLOW_DETECTIONS, _bucket(saga_type, max(timedelta(), found_at - since))] += 1


def _bucket(saga_type: str, taken: timedelta) -> str:
    return f"{saga_type}/{LABELS[bucket(LATENCY_SECONDS, taken.total_seconds())]}"
