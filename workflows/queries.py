"""Sagas as people and programs ask for them, each question along an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from events.models import Event
from webhookhub.db import clock

from . import facts, versions
from .definition import Definition
from .filters import Choice, newest_first
from .fold import fold
from .models import Fact, Instance
from .state import State
from .words import FAILED, OBSERVED, OPEN


@dataclass(frozen=True)
class Entry:
    """A fact in the timeline, with the event that told it or that was published."""

    fact: Fact
    event_uid: UUID | None
    event_type: str | None


def get(saga_id: UUID) -> Instance | None:
    return Instance.objects.filter(saga_id=saga_id).first()


def of_aggregate(aggregate_id: str, most: int) -> list[Instance]:
    """The latest first."""
    return list(Instance.objects.filter(aggregate_id=aggregate_id).order_by("-id")[:most])


def failed(most: int, before: int | None = None) -> list[Instance]:
    """The latest first; `before` is the number (id) of the last one of the page before."""
    return newest_first(Choice(status=FAILED), 1, before, most)


def stuck(most: int, now: datetime | None = None) -> list[Instance]:
    """Those that need an operator, and those whose deadline has passed without anybody noticing; the worst first."""
    now = now or clock.now()
    found = newest_first(Choice(needs_operator=True), 1, None, most)
    for status in OPEN:
        found += Instance.objects.due(status, now)[: most - len(found)]
    return found[:most]


def timeline(instance: Instance) -> list[Entry]:
    """All that is known of a saga, in the order in which it happened."""
    rows = list(Fact.objects.filter(instance=instance).order_by("occurred_at", "id"))
    ids = [row.event_id for row in rows if row.event_id is not None]
    events = {
        id: (uid, kind) for id, uid, kind in Event.objects.filter(id__in=ids).values_list("id", "uid", "event_type")
    }
    return [Entry(row, *(events.get(row.event_id or 0, (None, None)))) for row in rows]


def definition_of(instance: Instance) -> Definition:
    found = versions.in_force().get(instance.saga_type, instance.definition_version)
    assert found is not None, f"{instance} was born with a definition that was never stored"
    return found


def state_of(instance: Instance) -> State | None:
    """What its facts fold to at this moment; None if there is none yet."""
    known = facts.of([instance.pk])[instance.pk]
    observed = [fact for fact in known if fact.role in OBSERVED]
    return fold(definition_of(instance), known) if observed else None


def awaited_types(definition: Definition, step: str) -> Iterator[str]:
    """The event types that would let this step begin: those by which the steps before it are done."""
    found = definition.by_key.get(step)
    if found is None:
        return
    for key in found.after:
        yield from definition.by_key[key].done
    if not found.after:
        yield from definition.starts
