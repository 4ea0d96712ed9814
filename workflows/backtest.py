"""Try a definition on past events: what would have become of its runs, compared with what did. Writes nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from events.models import Event

from . import lookup
from .definition import Definition
from .matching import ParsedEvent
from .models import Fact as StoredFact
from .models import Instance
from .simulation import simulate
from .state import EVENT, OPERATOR, VERB, Fact

MAX_EVENTS = 1_000_000
MAX_SHOWN = 20
CHUNK = 500
NOT_TRACKED = "not tracked"


@dataclass
class Backtest:
    """`before` counts the statuses in the database, `after` the statuses that the definition would lead to."""

    events: int = 0
    runs: int = 0
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    differing: int = 0
    first: list[str] = field(default_factory=list)
    # There were more events or runs than the limit: the latest are missing.
    cut_short: bool = False
    # Stored facts of these runs besides the events of the period: from other events, and from services and operators.
    other_events: int = 0
    reported: int = 0
    # Not used: facts about steps that the definition does not have, and events that are no longer stored.
    left_out: int = 0
    missing: int = 0
    # Runs that are not in the database and whose start is not among the events.
    starts_unseen: int = 0
    # Events without a usable correlation key.
    without_key: int = 0
    # Runs of the database that started in the period and of whose events the definition uses none.
    not_found: int = 0


def backtest(
    definition: Definition,
    since: datetime,
    until: datetime,
    *,
    limit: int = MAX_EVENTS,
    progress: Callable[[int], None] = lambda events: None,
) -> Backtest:
    """Simulate each run that has an event in the period or started in it, with all facts that the database has of it;
    time-outs pass as they would have."""
    result = Backtest()
    facts: dict[str, list[Fact]] = defaultdict(list)
    event_ids: dict[str, set[int]] = defaultdict(set)
    read_until = until
    for event in _events(definition, since, until):
        if result.events == limit:
            result.cut_short, read_until = True, event.created_at
            break
        result.events += 1
        parsed = ParsedEvent(event)
        key = parsed.key(definition.correlation)
        if key is not None:
            for step, role, reason, aggregate_id in parsed.reports(definition):
                facts[key].append(Fact(role, step, event.created_at, EVENT, reason, aggregate_id))
            event_ids[key].add(event.id)
        else:
            result.without_key += 1
        if not result.events % CHUNK:
            progress(result.events)
    keys = sorted(facts)
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        rows = Instance.objects.filter(saga_type=definition.name, correlation_key__in=chunk)
        stored = {row.correlation_key: row for row in rows}
        more, _ = _stored_facts(result, definition, stored.values(), event_ids, until)
        for key in chunk:
            _compare(result, definition, key, stored.get(key), [*more.get(key, ()), *facts[key]], until)
    read = 0
    for runs in _started(definition.name, since, read_until):
        if read >= limit:
            result.cut_short = True
            break
        read += len(runs)
        others = [run for run in runs if run.correlation_key not in facts]
        more, incomplete = _stored_facts(result, definition, others, {}, until)
        for run in others:
            key = run.correlation_key
            # Without facts and with missing events, nothing can be said about the run.
            if more.get(key) or key not in incomplete:
                _compare(result, definition, key, run, more.get(key, []), until)
    return result


def _compare(
    result: Backtest, definition: Definition, key: str, stored: Instance | None, facts: Sequence[Fact], until: datetime
) -> None:
    after = (NOT_TRACKED, "")
    if facts:
        state = simulate(definition, sorted(facts, key=lambda fact: fact.at), until).state
        after = (state.status, state.current_step)
    else:
        result.not_found += 1
    before = (stored.status, stored.current_step) if stored else (NOT_TRACKED, "")
    result.runs += 1
    result.before[before[0]] += 1
    result.after[after[0]] += 1
    if stored is None and definition.start_facts.isdisjoint((fact.step, fact.role) for fact in facts):
        result.starts_unseen += 1
    if before != after:
        result.differing += 1
        if len(result.first) < MAX_SHOWN:
            result.first.append(f"{key}: {_describe(before)} → {_describe(after)}")


def _describe(place: tuple[str, str]) -> str:
    """Status and step; a run that is not tracked has no step."""
    return " at ".join(filter(None, place))


def _stored_facts(
    result: Backtest, definition: Definition, runs: Iterable[Instance], read: Mapping[str, set[int]], until: datetime
) -> tuple[dict[str, list[Fact]], set[str]]:
    """Correlation key → the stored facts that the definition uses, except those of events that were read already; and
    the keys of runs with missing events."""
    keys = {run.pk: run.correlation_key for run in runs}
    rows = StoredFact.objects.filter(
        instance_id__in=list(keys), origin__in=(EVENT, VERB, OPERATOR), occurred_at__lte=until
    ).order_by("id")
    columns = ("event_id", "event__event_type", "step", "role", "occurred_at", "origin", "detail", "aggregate_id")
    facts: dict[str, list[Fact]] = defaultdict(list)
    events, incomplete = set[int](), set[str]()
    for run_id, event_id, event_type, step, role, at, *rest in rows.values_list("instance_id", *columns):
        key = keys[run_id]
        if event_id is None:
            if step and step not in definition.by_key:
                result.left_out += 1
            else:
                result.reported += 1
                facts[key].append(Fact(role, step, at, *rest))
        elif event_id in read.get(key, ()) or event_id in events:
            continue
        elif event_type is None:
            result.missing += 1
            incomplete.add(key)
        elif event_type in definition.roles:
            events.add(event_id)
            result.other_events += 1
            facts[key] += [Fact(role, step, at, *rest) for step, role in definition.roles[event_type]]
    return facts, incomplete


def _events(definition: Definition, since: datetime, until: datetime) -> Iterator[Event]:
    rows = Event.objects.filter(event_type__in=list(definition.roles))
    for chunk in lookup.in_period(rows, "created_at", since, until, CHUNK):
        yield from chunk


def _started(name: str, since: datetime, until: datetime) -> Iterator[list[Instance]]:
    """The runs of a workflow that started in the period, in chunks."""
    # Filtered by name here: with the name in SQL, an engine may choose an index that is not ordered by time.
    rows = Instance.objects.only("id", "saga_type", "correlation_key", "status", "current_step", "started_at")
    for chunk in lookup.in_period(rows, "started_at", since, until, CHUNK):
        yield [row for row in chunk if row.saga_type == name]
