"""What the sagas of the database have heard beyond a stretch of events: what happened before it, and what was told.

For a definition that is tried on the past. In batches, and writing nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from events.models import Event

from .definition import Definition
from .models import Fact as Stored
from .paths import Document
from .state import Fact
from .words import EVENT, FAILURE, OPERATOR, UNDO_FAILED, VERB

PIECE = 500


@dataclass
class Histories:
    """`facts`: correlation key → what is to be added to what the events of the stretch say."""

    facts: dict[str, list[Fact]] = field(default_factory=lambda: defaultdict(list))
    events: int = 0
    told: int = 0
    # Told of a step that the definition has not, or of a saga of which it makes several.
    left_out: int = 0
    # Events that are there no more.
    missing: int = 0


def said_by(definition: Definition, event: Event, document: Document, at: datetime) -> Iterator[Fact]:
    """What a definition takes from an event of a type that it listens to."""
    aggregate_id = document.key(definition.aggregate)
    for step, role in definition.roles[event.event_type]:
        reason = document.text(definition.error, 500) if role in (FAILURE, UNDO_FAILED) else ""
        yield Fact(role, step, at, EVENT, reason, aggregate_id)


def histories(
    definition: Definition, sagas: Mapping[int, Collection[str]], known: Collection[int], until: datetime
) -> Histories:
    """`sagas`: number → the keys that the definition finds their events by; `known`: the events of the stretch that
    have these keys."""
    found = Histories()
    ids = sorted(sagas)
    for start in range(0, len(ids), PIECE):
        _add(found, definition, {id: set(sagas[id]) for id in ids[start : start + PIECE]}, known, until)
    return found


def _add(
    found: Histories, definition: Definition, keys: Mapping[int, set[str]], known: Collection[int], until: datetime
) -> None:
    heard, told = _read(list(keys), until)
    wanted = {event_id: its for event_id, its in heard.items() if event_id not in known}
    # Saga → the keys of all that it has heard: if there is another one, it would be several.
    all_keys = {id: set(its) for id, its in keys.items()}
    event_ids = sorted(wanted)
    for start in range(0, len(event_ids), PIECE):
        piece = event_ids[start : start + PIECE]
        events = list(Event.objects.filter(id__in=piece))
        found.missing += len(piece) - len(events)
        for event in events:
            document = Document(event.correlation_id, event.payload)
            key = document.key(definition.correlation)
            if event.event_type not in definition.roles or key is None:
                continue
            for id in wanted[event.id]:
                all_keys[id].add(key)
            if any(key in keys[id] for id in wanted[event.id]):
                found.events += 1
                # The time that the tracker went by, whatever the event's own word is.
                found.facts[key] += said_by(definition, event, document, min(wanted[event.id].values()))
    for id, facts in told.items():
        _tell(found, definition, all_keys[id], facts)


def _tell(found: Histories, definition: Definition, keys: set[str], told: Sequence[Fact]) -> None:
    usable = [fact for fact in told if not fact.step or fact.step in definition.by_key] if len(keys) == 1 else []
    found.told += len(usable)
    found.left_out += len(told) - len(usable)
    for key in keys if usable else ():
        found.facts[key] += usable


def _read(ids: Collection[int], until: datetime) -> tuple[dict[int, dict[int, datetime]], dict[int, list[Fact]]]:
    """(event → the sagas that heard it, and its time by them; saga → what was told of it)"""
    heard: dict[int, dict[int, datetime]] = defaultdict(dict)
    told: dict[int, list[Fact]] = defaultdict(list)
    rows = Stored.objects.filter(instance_id__in=ids, origin__in=(EVENT, VERB, OPERATOR), occurred_at__lte=until)
    columns = ("instance_id", "event_id", "role", "step", "occurred_at", "origin", "detail", "aggregate_id")
    for id, event_id, role, step, at, *rest in rows.order_by("id").values_list(*columns):
        if event_id is not None:
            heard[event_id][id] = at
        else:
            told[id].append(Fact(role, step, at, *rest))
    return heard, told
