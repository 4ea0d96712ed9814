"""A definition tried on events of the past: what would have become of its sagas, and what did. Writes nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from events.models import Event

from .definition import Definition
from .histories import histories, said_by
from .models import Fact as Said
from .paths import Document
from .simulation import simulate
from .state import Fact, State
from .unfound import Stored, begun, begun_by_word, unfound
from .words import EVENT

MOST_EVENTS = 1_000_000
MOST_SHOWN = 20
PIECE = 500


@dataclass(frozen=True)
class Difference:
    correlation_key: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.correlation_key}: {self.before} → {self.after}"


@dataclass
class Backtest:
    """`before` counts what the database says of the same sagas; `after` what the definition makes of their events."""

    events: int = 0
    sagas: int = 0
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    differing: int = 0
    first: list[Difference] = field(default_factory=list)
    # The events or the sagas were more than are looked at: the latest are not in it.
    cut_short: bool = False
    # Of sagas of the database: their events from before, and what services and operators told of them.
    earlier: int = 0
    told: int = 0
    # What could not be taken along: what was told of steps that the definition has not, or of sagas of which it makes
    # several; events that are there no more; of sagas that the database has not, whatever happened before.
    left_out: int = 0
    missing: int = 0
    beginnings_unseen: int = 0
    # Events that have no usable key where the definition looks for it, and so are of no saga.
    without_key: int = 0
    # Sagas of the database, begun in that time, that the definition does not find by any of their events.
    not_found: int = 0


UNTRACKED = "not tracked"


def backtest(
    definition: Definition,
    since: datetime,
    until: datetime,
    *,
    most: int = MOST_EVENTS,
    progress: Callable[[int], None] = lambda events: None,
) -> Backtest:
    """Each saga with an event since then, over all that it has heard until the end if the database has it, otherwise
    over those of its events; time-outs pass as they would have. And each saga of the database that began since then and
    that the definition would not have."""
    result = Backtest()
    lives: dict[str, list[Fact]] = defaultdict(list)
    told: dict[str, list[int]] = defaultdict(list)
    read_until = until
    for event in _events(definition, since, until):
        if result.events == most:
            result.cut_short, read_until = True, event.created_at
            break
        result.events += 1
        document = Document(event.correlation_id, event.payload)
        key = document.key(definition.correlation)
        if key is not None:
            lives[key] += said_by(definition, event, document, event.created_at)
            told[key].append(event.id)
        else:
            result.without_key += 1
        if not result.events % PIECE:
            progress(result.events)
    counted: set[int] = set()
    keys = sorted(lives)
    for start in range(0, len(keys), PIECE):
        piece = keys[start : start + PIECE]
        events = {event_id: key for key in piece for event_id in told.pop(key)}
        stored = _stored(definition, events)
        more = _more(result, definition, stored, events, until)
        for key in piece:
            life = sorted([*more.get(key, ()), *lives.pop(key)], key=lambda fact: fact.at)
            if not stored[key] and definition.start_facts.isdisjoint((fact.step, fact.role) for fact in life):
                result.beginnings_unseen += 1
            _compare(result, key, stored[key], simulate(definition, life, until).state, counted)
    looked_at = 0
    for begun_then in begun(definition.name, since, read_until):
        if looked_at >= most:
            result.cut_short = True
            break
        looked_at += len(begun_then)
        _add_unfound(result, definition, {saga.id: saga for saga in begun_then if saga.id not in counted}, until)
    return result


def _add_unfound(result: Backtest, definition: Definition, sagas: Mapping[int, Stored], until: datetime) -> None:
    """`sagas`: those of the database that have none of the events that were looked at."""
    lost = unfound(definition, sagas)
    told_to_begin = begun_by_word(lost) if lost else set()
    stored = {sagas[id].correlation_key: {sagas[id]} for id in told_to_begin}
    more = _more(result, definition, stored, (), until)
    for id in sorted(lost):
        key = sagas[id].correlation_key
        if more.get(key):
            life = sorted(more[key], key=lambda fact: fact.at)
            _compare(result, key, stored[key], simulate(definition, life, until).state, set())
        else:
            result.sagas += 1
            result.not_found += 1
            result.before[sagas[id].status] += 1
            result.after[UNTRACKED] += 1
            _differ(result, Difference(key, sagas[id].told(key), UNTRACKED))


def _differ(result: Backtest, difference: Difference) -> None:
    result.differing += 1
    if len(result.first) < MOST_SHOWN:
        result.first.append(difference)


def _more(
    result: Backtest,
    definition: Definition,
    stored: Mapping[str, set[Stored]],
    events: Collection[int],
    until: datetime,
) -> dict[str, list[Fact]]:
    """Key → what the sagas of the database have heard besides these events."""
    keys: dict[int, set[str]] = defaultdict(set)
    for key, sagas in stored.items():
        for saga in sagas:
            keys[saga.id].add(key)
    found = histories(definition, keys, events, until)
    result.earlier += found.events
    result.told += found.told
    result.left_out += found.left_out
    result.missing += found.missing
    return found.facts


def _compare(result: Backtest, key: str, stored: set[Stored], state: State, counted: set[int]) -> None:
    """A saga of the database that would be several is counted once."""
    after = (state.status, state.current_step)
    result.sagas += 1
    result.before.update([each.status for each in stored if each.id not in counted] if stored else [UNTRACKED])
    counted |= {each.id for each in stored}
    result.after[after[0]] += 1
    if [(each.status, each.step) for each in stored] != [after]:
        before = " and ".join(each.told(key) for each in sorted(stored)) or UNTRACKED
        _differ(result, Difference(key, before, " at ".join(filter(None, after))))


def _stored(definition: Definition, keys: dict[int, str]) -> dict[str, set[Stored]]:
    """Key → the sagas of the database that have its events, whatever key these were found by."""
    found: dict[str, set[Stored]] = defaultdict(set)
    event_ids = sorted(keys)
    for start in range(0, len(event_ids), PIECE):
        rows = Said.objects.filter(
            event_id__in=event_ids[start : start + PIECE], origin=EVENT, instance__saga_type=definition.name
        )
        columns = ("instance_id", "instance__correlation_key", "instance__status", "instance__current_step")
        for event_id, *columns_of_saga in rows.values_list("event_id", *columns):
            found[keys[event_id or 0]].add(Stored(*columns_of_saga))
    return found


def _events(definition: Definition, since: datetime, until: datetime) -> Iterator[Event]:
    """In the order of their time, a piece at a time along the index by time."""
    rows = Event.objects.filter(event_type__in=list(definition.roles), created_at__gte=since, created_at__lte=until)
    rows = rows.order_by("created_at", "id")
    piece = list(rows[:PIECE])
    while piece:
        yield from piece
        last = piece[-1]
        later = Q(created_at__gt=last.created_at) | Q(created_at=last.created_at, id__gt=last.id)
        piece = list(rows.filter(later, created_at__gte=last.created_at)[:PIECE]) if len(piece) == PIECE else []
