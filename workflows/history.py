"""The state of a run after each of its facts: as recorded, and as it would be under another version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from typing import NamedTuple

from events.models import Event

from . import facts
from .definition import CORRELATION_ID, Definition
from .fold import fold
from .matching import ParsedEvent, plausible
from .models import Fact, Instance
from .simulation import Simulation
from .state import EMITTED, EVENT, OBSERVED, State

# A producer may repeat itself without end, and each fact is folded with all facts before it.
MAX_FACTS = 500
# run_workflows notices a passed deadline within this time.
NOTICED_WITHIN = timedelta(seconds=10)


class Position(NamedTuple):
    """A fact, and the state after it. `state` is None before the first observed fact."""

    fact: Fact
    state: State | None


@dataclass(frozen=True)
class History:
    definition: Definition
    positions: Sequence[Position]
    # There are more facts than MAX_FACTS; the last ones are missing.
    cut: bool = False
    # Events that are no longer stored, so that another version cannot read them.
    missing: int = 0


class Row(NamedTuple):
    """One line of two histories. `left` or `right` is None if only the other history has the fact.

    The states are those after this line on each side. `right_at` is the time of a decision in the right history, if
    its version has another deadline for it.
    """

    left: Position | None
    right: Position | None
    left_state: State | None
    right_state: State | None
    right_at: datetime | None = None

    @property
    def fact(self) -> Fact:
        position = self.left or self.right
        assert position is not None
        return position.fact

    @property
    def differs(self) -> bool:
        return _place(self.left_state) != _place(self.right_state) or self.right_at is not None


def positions(definition: Definition, rows: Sequence[Fact]) -> list[Position]:
    """The state after each of these facts, in their order."""
    result: list[Position] = []
    known = [facts.read(row) for row in rows]
    observed = False
    for number, row in enumerate(rows, 1):
        observed = observed or row.role in OBSERVED
        result.append(Position(row, fold(definition, known[:number]) if observed else None))
    return result


def recorded(run: Instance, definition: Definition) -> History:
    """The stored facts in the order in which things happened. `definition` is the run's own version."""
    rows = _rows(run)
    return History(definition, positions(definition, rows[:MAX_FACTS]), cut=len(rows) > MAX_FACTS)


def simulated(run: Instance, own: Definition, definition: Definition, until: datetime) -> History:
    """What the hub would have decided about the same events and reports under another version, until `until`.

    If runs correlate by correlation_id, this includes events that only the other version uses. Writes nothing.
    """
    rows = [row for row in _rows(run) if row.role in OBSERVED]
    arrivals, missing = _arrivals(rows[:MAX_FACTS], definition)
    if definition.correlation == CORRELATION_ID:
        arrivals += _other_events(run, own, definition, until)
    arrivals.sort(key=lambda arrival: arrival[0].occurred_at)
    simulation = Simulation(definition)
    for arrival in arrivals:
        simulation.observe(*map(facts.read, arrival))
    simulation.pass_time(until)
    observed = (fact for arrival in arrivals for fact in arrival)
    all_facts = [
        next(observed)
        if fact.role in OBSERVED
        else Fact(
            instance_id=run.pk,
            role=fact.role,
            step=fact.step,
            origin=fact.origin,
            detail=fact.detail,
            decision_no=fact.decision_no,
            occurred_at=fact.at,
        )
        for fact in simulation.facts
    ]
    return History(definition, positions(definition, all_facts), cut=len(rows) > MAX_FACTS, missing=missing)


def side_by_side(left: History, right: History | None = None) -> list[Row]:
    """Both histories, with facts that they share on one line. Without `right`, a line has a left side only."""
    rows: list[Row] = []
    left_state: State | None = None
    right_state: State | None = None
    for first, second in _aligned(left.positions, right.positions if right else ()):
        right_at = None
        if first and second and _deadline(left_state) != _deadline(right_state):
            right_at = _decided_elsewhen(first.fact, second.fact)
        left_state = first.state if first else left_state
        right_state = second.state if second else right_state
        rows.append(Row(first, second, left_state, right_state, right_at))
    return rows


def _aligned(left: Sequence[Position], right: Sequence[Position]) -> Iterator[tuple[Position | None, Position | None]]:
    """Observations that both have are on one line, in their order; the decisions between them are compared."""
    begin = other_begin = 0
    for place, other in _shared_observations(left, right):
        yield from _merged(left[begin:place], right[other_begin:other])
        yield left[place], right[other]
        begin, other_begin = place + 1, other + 1
    yield from _merged(left[begin:], right[other_begin:])


def _shared_observations(left: Sequence[Position], right: Sequence[Position]) -> Iterator[tuple[int, int]]:
    """The places of each observation in both histories."""
    places, others = ([n for n, each in enumerate(side) if each.fact.role in OBSERVED] for side in (left, right))
    keys, other_keys = [_key(left[n].fact) for n in places], [_key(right[n].fact) for n in others]
    for start, other_start, size in SequenceMatcher(None, keys, other_keys, False).get_matching_blocks():
        yield from zip(places[start : start + size], others[other_start : other_start + size], strict=True)


def _merged(left: Sequence[Position], right: Sequence[Position]) -> Iterator[tuple[Position | None, Position | None]]:
    matcher = SequenceMatcher(None, [_key(each.fact) for each in left], [_key(each.fact) for each in right], False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(left[start:end], right[other_start:other_end], strict=True)
        else:
            alone: list[tuple[Position | None, Position | None]] = [(each, None) for each in left[start:end]]
            alone += [(None, each) for each in right[other_start:other_end]]
            yield from sorted(alone, key=_occurred_at)


def _occurred_at(pair: tuple[Position | None, Position | None]) -> datetime:
    return next(position.fact.occurred_at for position in pair if position)


def _key(fact: Fact) -> tuple[object, ...]:
    """The same for the same fact in both histories."""
    if fact.role not in OBSERVED:
        return fact.role, fact.step, fact.detail if fact.role == EMITTED else ""
    return ("event", fact.event_id) if fact.event_id is not None else ("fact", fact.pk)


def _deadline(state: State | None) -> datetime | None:
    return state.deadline if state else None


def _decided_elsewhen(fact: Fact, other: Fact) -> datetime | None:
    """The time of the other decision, unless it is about the same. What is published follows from a decision."""
    if fact.role == EMITTED or abs(other.occurred_at - fact.occurred_at) <= NOTICED_WITHIN:
        return None
    return other.occurred_at


def _place(state: State | None) -> tuple[str, str] | None:
    return (state.status, state.current_step) if state else None


def _rows(run: Instance) -> list[Fact]:
    """One more than MAX_FACTS, if there are as many."""
    return list(Fact.objects.filter(instance_id=run.pk).order_by("occurred_at", "id")[: MAX_FACTS + 1])


def _arrivals(rows: Sequence[Fact], definition: Definition) -> tuple[list[list[Fact]], int]:
    """The facts that the definition reads from the events and reports of these facts, together for each event; and how
    many events are no longer stored."""
    event_ids = {row.event_id for row in rows if row.event_id is not None}
    events = Event.objects.defer("payload").in_bulk(event_ids)
    arrivals, seen = [], set[int]()
    for row in rows:
        if row.event_id is None:
            if not row.step or row.step in definition.by_key:
                arrivals.append([row])
        elif row.event_id not in seen and row.event_id in events:
            pairs = definition.roles.get(events[row.event_id].event_type, ())
            arrivals.append([_fact(row, step, role, row.detail, row.aggregate_id) for step, role in pairs])
        seen.add(row.event_id or 0)
    return [arrival for arrival in arrivals if arrival], len(event_ids - set(events))


def _other_events(run: Instance, own: Definition, definition: Definition, until: datetime) -> list[list[Fact]]:
    """The facts of events that only the other version uses."""
    types = set(definition.roles) - set(own.roles)
    rows = Event.objects.filter(correlation_id=run.correlation_key, event_type__in=types).order_by("id")
    arrivals = []
    for event in rows[:MAX_FACTS]:
        fact = Fact(instance_id=run.pk, event_id=event.id, origin=EVENT, occurred_at=plausible(event.created_at, until))
        reports = ParsedEvent(event).reports(definition)
        arrivals.append([_fact(fact, *report) for report in reports])
    return arrivals


def _fact(like: Fact, step: str, role: str, detail: str, aggregate_id: str | None) -> Fact:
    return Fact(
        instance_id=like.instance_id,
        event_id=like.event_id,
        step=step,
        role=role,
        origin=like.origin,
        detail=detail,
        aggregate_id=aggregate_id,
        occurred_at=like.occurred_at,
    )
