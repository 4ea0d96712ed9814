"""Test cases generated from a definition, each with the end that the rules require. Pure: no database, no Django.

Used by `manage.py workflows test` and by the test suite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

from .definition import Definition, Step
from .simulation import Simulation
from .state import (
    COMPENSATED,
    COMPLETED,
    DONE,
    EVENT,
    FAILED,
    FAILURE,
    SAGA_COMPENSATION_REQUESTED,
    SAGA_COMPLETED,
    SAGA_FAILED,
    SAGA_TIMED_OUT,
    STARTED,
    UNDO_FAILED,
    UNDONE,
    Effect,
    Fact,
)

BEGIN = datetime(2026, 1, 31, tzinfo=UTC)
# Between two events: fifty steps take less time than the shortest time-out.
INTERVAL = timedelta(microseconds=1)
# After this time, every time-out has passed.
LONG = timedelta(days=800)
MAX_REORDERED = 5

# What a service reports: a step and a role.
Report = tuple[str, str]
# The facts of one event.
Arrival = Sequence[Fact]


@dataclass(frozen=True)
class End:
    """How a run ended, and what the hub published on the way."""

    status: str
    step: str
    published: tuple[Effect, ...]
    needs_operator: bool = False
    is_anomalous: bool = False
    # Step → state; compared only between orders of the same events.
    steps: tuple[tuple[str, str], ...] = ()

    @property
    def requested(self) -> tuple[str, ...]:
        """The steps whose compensation was requested, in order."""
        return tuple(effect.step for effect in self.published if effect.kind == SAGA_COMPENSATION_REQUESTED)


@dataclass(frozen=True)
class Result:
    """`runs`: how many runs were simulated. `end` is that of the first run that ended differently, if there is one."""

    definition: Definition
    kind: str
    step: str
    expected: End
    end: End
    runs: int = 1

    @property
    def passed(self) -> bool:
        return self.end == self.expected

    def __str__(self) -> str:
        where = f" at {self.step}" if self.step else ""
        return f"{self.definition.label}: {self.kind}{where}"


def results(definition: Definition) -> Iterator[Result]:
    """Every case of a definition: happy path; failure, time-out, failed and overdue compensation, late success and its
    compensation at every step; every optional step left out and failed; every event doubled; every order of up to five
    events."""
    for make in (_undisturbed, _optional, _timeouts, _failed_compensations, _late_successes, _late_compensations):
        yield from make(definition)
    for make in (_doubled, _reordered):
        yield from make(definition)


# Reports of services, from which the cases are made.


def at(number: float) -> datetime:
    return BEGIN + number * INTERVAL


def happy(definition: Definition) -> list[Report]:
    return [(step.key, DONE) for step in definition.in_order]


def before(definition: Definition, step: Step) -> list[Report]:
    """Everything that must be done before the step."""
    return [report for report in happy(definition) if report[0] in definition.ancestors[step.key]]


def others(definition: Definition, step: Step) -> list[Report]:
    """The start, and everything that can be done without the step."""
    later = {key for key, ancestors in definition.ancestors.items() if step.key in ancestors}
    return [report for report in _all_done(definition) if report[0] not in {step.key, *later}]


def undone(definition: Definition, reports: Iterable[Report]) -> list[Report]:
    """The compensations of done steps, in reverse order."""
    done = {step for step, role in reports if role == DONE}
    return [(step.key, UNDONE) for step in reversed(definition.in_order) if step.key in done and step.can_be_undone]


def event_type(definition: Definition, report: Report) -> str:
    """An event type that reports this, and as little else as possible."""
    types = [event_type for event_type, reports in definition.roles.items() if report in reports]
    return min(types, key=lambda event_type: len(definition.roles[event_type]))


def stories(definition: Definition) -> list[list[Report]]:
    """A run that completes, and runs that fail at each step and are compensated."""
    found = [_all_done(definition)]
    for step in definition.required:
        if step.failed:
            done = before(definition, step)
            found.append([*done, (step.key, FAILURE), *undone(definition, done)])
    return found


def fact(report: Report, time: datetime) -> Fact:
    step, role = report
    return Fact(role, step, time, EVENT, f"{step} is out of order" if role in (FAILURE, UNDO_FAILED) else "")


def arrivals(definition: Definition, reports: Iterable[Report], begin: datetime = BEGIN) -> list[Arrival]:
    """The events that report this, INTERVAL apart. An event that reports several things arrives once."""
    types = dict.fromkeys(event_type(definition, report) for report in reports)
    return [_facts(definition, each, begin + number * INTERVAL) for number, each in enumerate(types)]


def _facts(definition: Definition, event_type: str, time: datetime) -> Arrival:
    return [fact(report, time) for report in definition.roles[event_type]]


def _all_done(definition: Definition) -> list[Report]:
    """The start and all steps; no optional step whose event also reports something else."""
    has_own_start = any(("", STARTED) in reports for reports in definition.roles.values())
    steps = [
        report
        for report in happy(definition)
        if not definition.by_key[report[0]].optional or len(definition.roles[event_type(definition, report)]) == 1
    ]
    return [("", STARTED), *steps] if has_own_start else steps


# The cases.


def _undisturbed(definition: Definition) -> Iterator[Result]:
    for step, story, expected in _whole_stories(definition):
        end = _end(_simulate(definition, arrivals(definition, story), LONG))
        yield Result(definition, "failure" if step else "happy path", step, expected, end)


def _optional(definition: Definition) -> Iterator[Result]:
    """A run completes without its optional steps, whatever they report."""
    completed = _completed(definition)
    for step in definition.in_order:
        if not step.optional:
            continue
        reports = others(definition, step)
        if not all((other.key, DONE) in _pairs(definition, reports) for other in definition.required):
            continue  # a required step comes after it
        end = _end(_simulate(definition, arrivals(definition, reports), LONG))
        yield Result(definition, "optional step left out", step.key, completed, end)
        if step.failed:
            failure = (step.key, FAILURE)
            orders = [[*reports, failure], [*reports[:-1], failure, reports[-1]]]
            ends = [_end(_simulate(definition, arrivals(definition, order), LONG)) for order in orders]
            yield Result(definition, "optional step failed", step.key, completed, _different(completed, ends), 2)


def _timeouts(definition: Definition) -> Iterator[Result]:
    for step in _silent(definition):
        reports, over = others(definition, step), _timeout(definition, step)
        run = _timed_out(definition, step, undone(definition, reports))
        expected = _failed(definition, reports, over, Effect(SAGA_TIMED_OUT, over))
        yield Result(definition, "time-out", step.key, expected, _end(run))


def _failed_compensations(definition: Definition) -> Iterator[Result]:
    for step in definition.in_order:
        # A step that fails while this one is done.
        failing = [other for other in _silent(definition) if (step.key, DONE) in others(definition, other)]
        if not failing or not step.can_be_undone:
            continue
        other = failing[-1]
        reports, over = others(definition, other), _timeout(definition, other)
        compensated = _failed(definition, reports, over, Effect(SAGA_TIMED_OUT, over))
        expected = End(FAILED, compensated.step, compensated.published, needs_operator=True)
        if step.compensation_failed:
            run = _timed_out(definition, other, [(step.key, UNDO_FAILED)])
            yield Result(definition, "failed compensation", step.key, expected, _end(run))
        replies = [
            report for report in undone(definition, reports) if (step.key, UNDONE) not in _pairs(definition, [report])
        ]
        run = _timed_out(definition, other, replies)
        yield Result(definition, "overdue compensation", step.key, expected, _end(run))


def _late_successes(definition: Definition) -> Iterator[Result]:
    for step in _silent(definition):
        run, expected = _succeeded_late(definition, step)
        yield Result(definition, "late success", step.key, expected, _end(run))


def _late_compensations(definition: Definition) -> Iterator[Result]:
    """Of steps that succeed after the end of their runs. The last step is compensated in no other case."""
    for step in _silent(definition):
        if not step.can_be_undone:
            continue
        replies = {"late compensation": UNDONE, "failed late compensation": UNDO_FAILED}
        if not step.compensation_failed:
            del replies["failed late compensation"]
        for kind, role in replies.items():
            run, expected = _succeeded_late(definition, step)
            run.observe(*_facts(definition, event_type(definition, (step.key, role)), BEGIN + LONG + 2 * INTERVAL))
            run.pass_time(BEGIN + 2 * LONG)
            yield Result(definition, kind, step.key, replace(expected, needs_operator=role == UNDO_FAILED), _end(run))


def _doubled(definition: Definition) -> Iterator[Result]:
    for step, story, expected in _whole_stories(definition):
        once = arrivals(definition, story)
        twice = [arrival for arrival in once for _ in range(2)]
        again = [*once, *arrivals(definition, story, at(len(once)))]
        ends = [_end(_simulate(definition, each)) for each in (twice, again)]
        yield Result(definition, "doubled events", step, expected, _different(expected, ends), len(ends))


def _reordered(definition: Definition) -> Iterator[Result]:
    for story in stories(definition):
        step = next((key for key, role in story if role == FAILURE), "")
        reference = _end_of_any_order(_simulate(definition, arrivals(definition, story[:MAX_REORDERED])))
        ends = [
            _end_of_any_order(_simulate(definition, arrivals(definition, order)))
            for order in permutations(story[:MAX_REORDERED])
        ]
        yield Result(definition, "reordered events", step, reference, _different(reference, ends), len(ends))


def _whole_stories(definition: Definition) -> Iterator[tuple[str, list[Report], End]]:
    """(failing step, reports, end) of a run that completes, and of runs that fail when all else is done."""
    yield "", _all_done(definition), _completed(definition)
    for step in definition.required:
        if step.failed:
            reports = [*others(definition, step), (step.key, FAILURE)]
            story = [*reports, *undone(definition, reports)]
            yield step.key, story, _failed(definition, reports, step.key)


def _silent(definition: Definition) -> list[Step]:
    """The required steps that can give no result in a run whose start was seen."""
    return [
        step
        for step in definition.in_order
        if not step.optional and not definition.start_facts.isdisjoint(_pairs(definition, others(definition, step)))
    ]


def _pairs(definition: Definition, reports: Iterable[Report]) -> set[Report]:
    """All that the events say which report this."""
    return {pair for report in reports for pair in definition.roles[event_type(definition, report)]}


# What the rules require.


def _completed(definition: Definition) -> End:
    required = [step.key for step in definition.in_order if not step.optional]
    return End(COMPLETED, required[-1], (Effect(SAGA_COMPLETED, ""),))


def _failed(definition: Definition, reports: Sequence[Report], step: str, *first: Effect) -> End:
    """The end of a run that fails at a step after these reports, when everything has been undone."""
    to_undo = [key for key, _ in undone(definition, reports)]
    seen = _pairs(definition, reports)
    requests = [Effect(SAGA_COMPENSATION_REQUESTED, key) for key in to_undo if (key, UNDONE) not in seen]
    status = COMPENSATED if to_undo else FAILED
    return End(status, step, (*first, *requests, Effect(SAGA_FAILED, "")))


def _timeout(definition: Definition, step: Step) -> str:
    """The step that times out if this one gives no result; empty if the whole run does so first."""
    if step.timeout is None:
        return ""
    done = {fact.step: fact.at for arrival in arrivals(definition, others(definition, step)) for fact in arrival}
    ready_at = max((done[key] for key in step.after), default=BEGIN)
    return step.key if ready_at + step.timeout < BEGIN + definition.timeout else ""


# What happens.


def _timed_out(definition: Definition, step: Step, replies: Sequence[Report]) -> Simulation:
    """A run in which the step gives no result, and services reply to the requests for compensation."""
    run = Simulation(definition)
    for arrival in arrivals(definition, others(definition, step)):
        run.observe(*arrival)
    due = run.state.deadline
    assert due is not None
    run.pass_time(due)
    for arrival in arrivals(definition, replies, due + INTERVAL):
        run.observe(*arrival)
    run.pass_time(BEGIN + LONG)
    return run


def _succeeded_late(definition: Definition, step: Step) -> tuple[Simulation, End]:
    """A run that has timed out at the step, which succeeds after the end; and the end that the rules require."""
    reports, over = others(definition, step), _timeout(definition, step)
    run = _timed_out(definition, step, undone(definition, reports))
    run.observe(*_facts(definition, event_type(definition, (step.key, DONE)), BEGIN + LONG + INTERVAL))
    ended = _failed(definition, reports, over, Effect(SAGA_TIMED_OUT, over))
    request = (Effect(SAGA_COMPENSATION_REQUESTED, step.key),) if step.can_be_undone else ()
    return run, End(ended.status, ended.step, (*ended.published, *request), step.can_be_undone, is_anomalous=True)


def _simulate(definition: Definition, arrivals: Iterable[Arrival], until: timedelta = timedelta()) -> Simulation:
    run = Simulation(definition)
    for arrival in arrivals:
        run.observe(*arrival)
    run.pass_time(BEGIN + until)
    return run


def _end(run: Simulation) -> End:
    state = run.state
    return End(state.status, state.current_step, tuple(run.published), state.needs_operator, bool(state.anomaly))


def _end_of_any_order(run: Simulation) -> End:
    """What must not depend on the order. A step that was undone before the failure is known is not requested."""
    end = _end(run)
    # A completed run must not have requested anything.
    is_shown = end.status == COMPLETED
    published = [effect for effect in end.published if is_shown or effect.kind != SAGA_COMPENSATION_REQUESTED]
    return replace(end, step="", published=tuple(published), steps=tuple(run.state.steps.items()))


def _different(expected: End, ends: Sequence[End]) -> End:
    return next((end for end in ends if end != expected), ends[0])
