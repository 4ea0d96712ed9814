"""What the hub says of a saga in an event, and whether a stored event says just that.

Whoever may insert into `events` by SQL can insert one in the hub's name. What it should say follows from the facts,
which they cannot write; so it is compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import UUID

from .state import Effect, State
from .words import SAGA_COMPENSATION_REQUESTED, SAGA_COMPLETED, SAGA_FAILED, SAGA_TIMED_OUT


class Identity(NamedTuple):
    """What a saga is known by to others."""

    id: int
    saga_id: UUID
    saga_type: str
    definition_version: int
    correlation_key: str


def external_id(saga_id: UUID, effect: Effect) -> str:
    return f"{saga_id}/{effect.kind}/{effect.step}"


def other_external_id(saga_id: UUID, effect: Effect, said: dict[str, Any]) -> str:
    """For when somebody has used the first for something else; of the content, so that saying it again is one event."""
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    return f"{external_id(saga_id, effect)}/{digest[:32]}"


def payload(saga: Identity, state: State, effect: Effect) -> dict[str, Any]:
    said: dict[str, Any] = {
        "saga_id": str(saga.saga_id),
        "saga_type": saga.saga_type,
        "version": saga.definition_version,
        "correlation_id": saga.correlation_key,
        "aggregate_id": state.aggregate_id,
    }
    match effect.kind:
        case kind if kind in (SAGA_TIMED_OUT, SAGA_COMPENSATION_REQUESTED):
            said |= {"step": effect.step or None, "reason": state.failing_error or state.error_message}
        case kind if kind == SAGA_COMPLETED:
            said |= _times(state)
        case kind if kind == SAGA_FAILED:
            step, reason = state.current_step or None, state.error_message
            said |= {"status": state.status, "step": step, "reason": reason, **_times(state)}
    return said


def agrees(stored: str, wanted: dict[str, Any], aggregates: Collection[str | None]) -> bool:
    """Whether a stored payload is what was to be said. Of all that is in it, only the aggregate may have been another
    when it was said: one that some fact names, or none yet."""
    try:
        said = json.loads(stored)
    except (ValueError, RecursionError):
        return False
    if not isinstance(said, dict) or said.get("aggregate_id") not in {None, *aggregates}:
        return False
    return {**said, "aggregate_id": None} == {**wanted, "aggregate_id": None}


def _times(state: State) -> dict[str, Any]:
    ended_at = state.completed_at.isoformat() if state.completed_at else None
    return {"started_at": state.started_at.isoformat(), "ended_at": ended_at}
