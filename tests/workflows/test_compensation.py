"""Generated for every definition: happy path; failure, time-out, failed compensation and late success at every step;
every event doubled; every order of up to five events."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from tests.workflows.lives import DEFINITIONS, cases, facts, named
from workflows.definition import Definition, Step
from workflows.scenarios import INTERVAL, Report, at, before, happy, stories, undone
from workflows.simulation import Simulation, simulate
from workflows.state import (
    COMPENSATED,
    COMPENSATING,
    COMPLETED,
    DONE,
    FAILED,
    FAILURE,
    IN_PROGRESS,
    SAGA_COMPENSATION_REQUESTED,
    SAGA_COMPLETED,
    SAGA_FAILED,
    SAGA_TIMED_OUT,
    UNDO_FAILED,
    Effect,
)

LONG = timedelta(days=400)
# Steps with ancestors: without one, there is no fact before the step is done.
LATER = [case for case in cases() if before(*case)]
LATER_UNDOABLE = [case for case in cases("compensated") if before(*case)]
each_definition = pytest.mark.parametrize("definition", DEFINITIONS, ids=named)


def requested(run: Simulation) -> list[str]:
    return [effect.step for effect in run.published if effect.kind == SAGA_COMPENSATION_REQUESTED]


def live(definition: Definition, reports: list[Report], until: timedelta = timedelta()) -> Simulation:
    """Simulates until `until` after the last fact."""
    return simulate(definition, facts(reports), at(len(reports)) + until)


@pytest.mark.requirement("R5-3.1g", "R5-3.2g")
@each_definition
def test_a_run_with_all_steps_done_is_complete_and_stays_so(definition: Definition):
    run = live(definition, happy(definition), LONG)

    assert run.state.status == COMPLETED
    assert run.published == [Effect(SAGA_COMPLETED, "")]
    assert run.state.deadline is None
    assert not run.state.anomaly


@pytest.mark.requirement("R5-3.2f")
@each_definition
def test_a_run_is_in_progress_until_the_last_required_step_is_done(definition: Definition):
    needed = [(step.key, DONE) for step in definition.in_order if not step.optional]

    for done in range(1, len(needed)):
        run = live(definition, needed[:done])
        assert run.state.status == IN_PROGRESS
        assert run.state.current_step == needed[done][0]
        assert run.published == []
        assert run.state.deadline is not None


@pytest.mark.requirement("R5-1b", "R5-1c", "R5-3.1c", "R5-3.1f", "R5-3.2h", "R5-3.2i", "R5-6b", "R5-9c")
@pytest.mark.parametrize(("definition", "step"), cases("failed"), ids=named)
def test_a_failure_compensates_done_steps_in_reverse_order(definition: Definition, step: Step):
    done = before(definition, step)
    back = undone(definition, done)
    reports = [*done, (step.key, FAILURE)]

    run = live(definition, reports)
    assert requested(run) == [key for key, _ in back]
    assert run.state.status == (COMPENSATING if back else FAILED)
    assert run.state.error_message == f"{step.key} is out of order"

    run = live(definition, [*reports, *back], LONG)
    assert run.state.status == (COMPENSATED if back else FAILED)
    assert run.state.current_step == step.key
    assert run.published[-1] == Effect(SAGA_FAILED, "")
    assert not run.state.needs_operator


@pytest.mark.requirement("R5-3.5d")
@pytest.mark.parametrize(("definition", "step"), LATER, ids=named)
def test_a_step_without_a_result_times_out(definition: Definition, step: Step):
    done = before(definition, step)
    back = undone(definition, done)

    run = simulate(definition, facts(done), at(len(done) - 1) + (step.timeout or definition.timeout))

    assert run.published[0] == Effect(SAGA_TIMED_OUT, step.key if step.timeout else "")
    assert requested(run) == [key for key, _ in back]
    assert run.state.status == (COMPENSATING if back else FAILED)


@pytest.mark.requirement("R5-3.5b")
@pytest.mark.parametrize(("definition", "step"), LATER, ids=named)
def test_a_step_does_not_time_out_early(definition: Definition, step: Step):
    done = before(definition, step)

    almost = at(len(done) - 1) + (step.timeout or definition.timeout - len(done) * INTERVAL) - timedelta(microseconds=1)
    run = simulate(definition, facts(done), almost)

    assert run.state.status == IN_PROGRESS


@pytest.mark.requirement("R5-5d", "R5-9c")
@pytest.mark.parametrize(("definition", "failing"), cases("failed"), ids=named)
def test_a_compensation_that_fails_or_is_overdue_needs_an_operator(definition: Definition, failing: Step):
    done = before(definition, failing)
    for key, _ in undone(definition, done):
        reports = [*done, (failing.key, FAILURE)]
        if definition.by_key[key].compensation_failed:
            run = live(definition, [*reports, (key, UNDO_FAILED)])
            assert run.state.status == FAILED
            assert run.state.needs_operator
            assert key in run.state.error_message

        others = [report for report in undone(definition, done) if report[0] != key]
        run = live(definition, [*reports, *others], definition.compensation_timeout)
        assert run.state.status == FAILED
        assert run.state.needs_operator
        assert run.state.error_message == f"compensation is overdue: {key}"
        assert run.published[-1] == Effect(SAGA_FAILED, "")


@pytest.mark.requirement("R5-9c")
@pytest.mark.parametrize(("definition", "step"), LATER_UNDOABLE, ids=named)
def test_a_late_success_is_compensated_and_does_not_change_the_end(definition: Definition, step: Step):
    done = before(definition, step)
    back = undone(definition, done)
    run = simulate(definition, facts(done), at(len(done) - 1) + (step.timeout or definition.timeout))
    over = at(len(done)) + definition.timeout
    for number, report in enumerate(back):
        run.observe(facts([report])[0].__class__(report[1], report[0], over + number * INTERVAL, "event"))
    ended = run.state
    assert ended.status == (COMPENSATED if back else FAILED)

    run.observe(facts([(step.key, DONE)])[0].__class__(DONE, step.key, over + 100 * INTERVAL, "event"))

    assert requested(run)[-1] == step.key
    assert run.state.anomaly == f"{step.key} done after the end"
    assert run.state.needs_operator
    unchanged = ("status", "current_step", "started_at", "completed_at", "compensation_started_at", "error_message")
    assert [getattr(run.state, name) for name in unchanged] == [getattr(ended, name) for name in unchanged]


@pytest.mark.parametrize(("definition", "step"), cases("failed"), ids=named)
def test_a_completed_run_is_never_compensated(definition: Definition, step: Step):
    run = live(definition, [*happy(definition), (step.key, FAILURE)], LONG)

    assert run.state.status == COMPLETED
    assert run.published == [Effect(SAGA_COMPLETED, "")]
    assert run.state.anomaly == f"{step.key} failed after the end"


@pytest.mark.requirement("R5-3.4a", "R5-9c")
@each_definition
def test_every_event_doubled_makes_no_difference(definition: Definition):
    for story in stories(definition):
        once = live(definition, story)
        twice = live(definition, [report for report in story for _ in range(2)])
        again = live(definition, [*story, *story])

        assert once.published == twice.published == again.published
        for run in (twice, again):
            assert run.state.status == once.state.status
            assert run.state.steps == once.state.steps
            assert not run.state.anomaly


@pytest.mark.requirement("R5-1a", "R5-5b")
@each_definition
def test_every_order_of_up_to_five_events_leads_to_the_same_end(definition: Definition):
    for story in stories(definition):
        for events in [story[:5]] if len(story) > 5 else [story, story[:-1]]:
            ends = set()
            for order in permutations(events):
                run = live(definition, list(order))
                ends.add((run.state.status, tuple(run.state.steps.items()), run.state.anomaly))
                assert sorted(set(requested(run))) == sorted(requested(run))
                assert not (requested(run) and Effect(SAGA_COMPLETED, "") in run.published)
            assert len(ends) == 1, (events, ends)
