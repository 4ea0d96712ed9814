"""What becomes of sagas, published as ordinary events of the hub.

Each has an external id made of the saga, what is said and the step: to publish it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from events.intake import HUB_SOURCE, NewEvent, Published, publish_many
from events.models import Event

from . import facts
from .fold import Effect, State
from .words import SAGA_COMPENSATION_REQUESTED, SAGA_COMPLETED, SAGA_FAILED, SAGA_TIMED_OUT


class Identity(NamedTuple):
    """What a saga is known by to others."""

    id: int
    saga_id: UUID
    saga_type: str
    definition_version: int
    correlation_key: str


def emit(sagas: Sequence[tuple[Identity, State]], now: datetime) -> int:
    """Publish what these have to say and note it down; returns how many events that is."""
    wanted = [(saga, state, effect) for saga, state in sagas for effect in state.effects]
    if not wanted:
        return 0
    results = publish_many([_event(saga, state, effect) for saga, state, effect in wanted], by_hub=True)
    published = []
    for (saga, _, effect), result in zip(wanted, results, strict=True):
        if isinstance(result, Published):
            published.append((saga.id, result.id, effect))
            continue
        # Said before, in words that a fact which came since has changed: it stays as it was said.
        there = Event.objects.filter(source=HUB_SOURCE, external_id=external_id(saga.saga_id, effect))
        published.append((saga.id, there.values_list("id", flat=True).get(), effect))
    facts.note_published(published, now)
    return len(published)


def external_id(saga_id: UUID, effect: Effect) -> str:
    return f"{saga_id}/{effect.kind}/{effect.step}"


def _event(saga: Identity, state: State, effect: Effect) -> NewEvent:
    return NewEvent(
        event_type=effect.kind,
        payload=_payload(saga, state, effect),
        source=HUB_SOURCE,
        external_id=external_id(saga.saga_id, effect),
        correlation_id=saga.correlation_key,
    )


def _payload(saga: Identity, state: State, effect: Effect) -> dict[str, Any]:
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


def _times(state: State) -> dict[str, Any]:
    ended_at = state.completed_at.isoformat() if state.completed_at else None
    return {"started_at": state.started_at.isoformat(), "ended_at": ended_at}
