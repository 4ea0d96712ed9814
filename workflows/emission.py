"""What becomes of sagas, published as ordinary events of the hub.

Each has an external id made of the saga, what is said and the step: to publish it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeGuard

from events.intake import HUB_SOURCE, NewEvent, Published, publish_many
from events.models import Event
from webhookhub.logs import Fact as Told
from webhookhub.logs import log

from . import facts
from .events import Identity, agrees, external_id, other_external_id, payload
from .models import Fact
from .state import Effect, State


def emit(sagas: Sequence[tuple[Identity, State]], now: datetime) -> int:
    """Publish what these have to say and note it down; returns how many events that is."""
    wanted = [(saga, state, effect) for saga, state in sagas for effect in state.effects]
    if not wanted:
        return 0
    results = publish_many([_event(*each, external_id(each[0].saga_id, each[2])) for each in wanted], by_hub=True)
    published = []
    for (saga, state, effect), result in zip(wanted, results, strict=True):
        event_id = result.id if _is_of(result, saga) else _said_otherwise(saga, state, effect)
        published.append((saga.id, event_id, effect))
    facts.note_published(published, now)
    return len(published)


def _said_otherwise(saga: Identity, state: State, effect: Effect) -> int:
    """The event's number, where another content stands under its external id."""
    there = Event.objects.get(source=HUB_SOURCE, external_id=external_id(saga.saga_id, effect))
    wanted = payload(saga, state, effect)
    aggregates = set(Fact.objects.filter(instance_id=saga.id).values_list("aggregate_id", flat=True))
    said_here = there.event_type == effect.kind and there.correlation_id == saga.correlation_key
    if said_here and agrees(there.payload, wanted, aggregates):
        # Said before, when a fact that came since was not known: it stays as it was said.
        return there.id
    # Not by the hub. What is to be said is said all the same: first under an id of its content; and if that is taken
    # too, under none, which nobody can take, though it may then be said twice after a crash.
    log(Told.WORKFLOW_EVENT_FORGED, event_uid=str(there.uid), saga=str(saga.saga_id), event_type=effect.kind)
    for id in (other_external_id(saga.saga_id, effect, wanted), None):
        [result] = publish_many([_event(saga, state, effect, id)], by_hub=True)
        if _is_of(result, saga):
            return result.id
    raise AssertionError("an event without an external id is in nobody's way")


def _is_of(result: Published | Exception, saga: Identity) -> TypeGuard[Published]:
    """An event with the same content that belongs to another case is not what was to be said: a repeat is compared by
    type and payload, and whoever looks for what became of this case would not find it."""
    return isinstance(result, Published) and result.correlation_id == saga.correlation_key


def _event(saga: Identity, state: State, effect: Effect, external_id: str | None) -> NewEvent:
    return NewEvent(
        event_type=effect.kind,
        payload=payload(saga, state, effect),
        source=HUB_SOURCE,
        external_id=external_id,
        correlation_id=saga.correlation_key,
    )
