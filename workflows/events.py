"""What the hub publishes about runs: ordinary events, each with an external id made of run, kind and step.

Publishing one again changes nothing. A user with INSERT on `events` could forge one by SQL, so the stored payload is
compared with what follows from the facts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID

from events.intake import HUB_SOURCE, NewEvent, Published, publish_many
from events.models import Event
from webhookhub.logs import Log, log

from . import facts
from .models import Fact, Instance
from .state import SAGA_COMPENSATION_REQUESTED, SAGA_COMPLETED, SAGA_FAILED, SAGA_TIMED_OUT, Effect, State


def publish(runs: Sequence[tuple[Instance, State]], now: datetime) -> None:
    """Publish the effects of these runs and record that."""
    effects = [(run, state, effect) for run, state in runs for effect in state.effects]
    if not effects:
        return
    new = [_event(run, state, effect, external_id(run.saga_id, effect)) for run, state, effect in effects]
    published = []
    for (run, state, effect), result in zip(effects, publish_many(new, by_hub=True), strict=True):
        event_id = result.id if _belongs_to(result, run) else _resolve_conflict(run, state, effect)
        published.append((run.id, event_id, effect))
    facts.note_published(published, now)


def external_id(saga_id: UUID, effect: Effect) -> str:
    return f"{saga_id}/{effect.kind}/{effect.step}"


def alternative_external_id(saga_id: UUID, effect: Effect, content: dict[str, Any]) -> str:
    """For when the first id is taken. Derived from the content, so that publishing again is one event."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return f"{external_id(saga_id, effect)}/{digest[:32]}"


def payload(run: Instance, state: State, effect: Effect) -> dict[str, Any]:
    content: dict[str, Any] = {
        "saga_id": str(run.saga_id),
        "saga_type": run.saga_type,
        "version": run.definition_version,
        "correlation_id": run.correlation_key,
        "aggregate_id": state.aggregate_id,
    }
    if effect.kind in (SAGA_TIMED_OUT, SAGA_COMPENSATION_REQUESTED):
        content |= {"step": effect.step or None, "reason": state.failing_error or state.error_message}
    elif effect.kind == SAGA_FAILED:
        content |= {"status": state.status, "step": state.current_step or None, "reason": state.error_message}
    if effect.kind in (SAGA_COMPLETED, SAGA_FAILED):
        ended_at = state.completed_at.isoformat() if state.completed_at else None
        content |= {"started_at": state.started_at.isoformat(), "ended_at": ended_at}
    return content


def agrees(stored: str, wanted: dict[str, Any], aggregates: Collection[str | None]) -> bool:
    """Whether a stored payload has the wanted content. Only the aggregate id may differ: it may not have been known
    when the event was published, or a different fact may have named it."""
    try:
        content = json.loads(stored)
    except (ValueError, RecursionError):
        return False
    if not isinstance(content, dict) or content.get("aggregate_id") not in {None, *aggregates}:
        return False
    return {**content, "aggregate_id": None} == {**wanted, "aggregate_id": None}


def _resolve_conflict(run: Instance, state: State, effect: Effect) -> int:
    """The id of the published event, where other content is stored under its external id."""
    stored = Event.objects.get(source=HUB_SOURCE, external_id=external_id(run.saga_id, effect))
    wanted = payload(run, state, effect)
    aggregates = set(Fact.objects.filter(instance_id=run.id).values_list("aggregate_id", flat=True))
    same_event = stored.event_type == effect.kind and stored.correlation_id == run.correlation_key
    if same_event and agrees(stored.payload, wanted, aggregates):
        # Published earlier, before the aggregate id was known.
        return stored.id
    # Forged. Publish the real one under an id derived from its content. If that is taken too, publish it without an id;
    # then a crash may publish it twice.
    log(Log.WORKFLOW_EVENT_FORGED, **run.log_fields, event_uid=str(stored.uid), event_type=effect.kind)
    for id in (alternative_external_id(run.saga_id, effect, wanted), None):
        [result] = publish_many([_event(run, state, effect, id)], by_hub=True)
        if _belongs_to(result, run):
            return result.id
    raise AssertionError("an event without an external id conflicts with nothing")


def _belongs_to(result: Published | Exception, run: Instance) -> TypeGuard[Published]:
    """publish_many compares a repeat by type and payload only, so the correlation id is compared here."""
    return isinstance(result, Published) and result.correlation_id == run.correlation_key


def _event(run: Instance, state: State, effect: Effect, external_id: str | None) -> NewEvent:
    return NewEvent(
        event_type=effect.kind,
        payload=payload(run, state, effect),
        source=HUB_SOURCE,
        external_id=external_id,
        correlation_id=run.correlation_key,
    )
