"""The fold is a function of the set of facts: order and repetition make no difference."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.lives import DEFINITIONS, ORDER, facts
from workflows.definition import Definition
from workflows.fold import fold
from workflows.scenarios import BEGIN, INTERVAL, at, happy
from workflows.simulation import Simulation
from workflows.state import (
    CLOSED,
    COMPENSATED,
    COMPENSATING,
    COMPLETED,
    DONE,
    EVENT,
    FAILED,
    FAILURE,
    FINISHED,
    IN_PROGRESS,
    OPERATOR,
    SAGA_COMPENSATION_REQUESTED,
    SAGA_COMPLETED,
    SAGA_FAILED,
    STEP_ROLES,
    TERMINAL,
    UNDO_FAILED,
    UNDONE,
    VERB,
    Effect,
    Fact,
    UnreadableFact,
)


@st.composite
def random_runs(draw: st.DrawFn) -> Simulation:
    """Random facts about random steps, with time passing in between."""
    definition = draw(st.sampled_from(DEFINITIONS))
    run = Simulation(definition)
    now = BEGIN
    keys = [step.key for step in definition.steps]
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([INTERVAL, timedelta(minutes=6), timedelta(hours=1)]))
        of_step = st.tuples(st.sampled_from(keys), st.sampled_from(STEP_ROLES), st.just(EVENT))
        of_saga = st.sampled_from(
            [("", FAILURE, VERB), ("", FINISHED, VERB), ("", UNDONE, VERB), ("", CLOSED, OPERATOR)]
        )
        step, role, origin = draw(st.one_of(of_step, of_step, of_step, of_saga))
        reason, aggregate = draw(st.sampled_from(["", "x", "y"])), draw(st.sampled_from([None, "a", "b"]))
        fact = Fact(role, step, now, origin, reason, aggregate)
        # Arrives late: after events that happened later.
        run.observe(fact) if draw(st.booleans()) else _observe_late(run, fact, draw(st.integers(0, 900)))
    return run


def _observe_late(run: Simulation, fact: Fact, seconds: int) -> None:
    run.pass_time(fact.at)
    run.facts.append(Fact(fact.role, fact.step, fact.at - timedelta(seconds=seconds), *_rest(fact)))
    run._settle(fact.at)


def _rest(fact: Fact) -> tuple[str, str, str | None]:
    return fact.origin, fact.detail, fact.aggregate_id


@pytest.mark.requirement("R5-5b")
@given(random_runs(), st.data())
def test_order_and_repetition_do_not_change_the_state(run: Simulation, data: st.DataObject):
    again = data.draw(st.lists(st.sampled_from(run.facts), max_size=10))
    shuffled = data.draw(st.permutations([*run.facts, *again]))

    assert fold(run.definition, shuffled) == fold(run.definition, run.facts)


@pytest.mark.requirement("R5-1a", "R5-3.1g")
@given(random_runs())
def test_invariants_hold_for_random_facts(run: Simulation):
    state = run.state
    kinds = [effect.kind for effect in run.published]

    assert state.next is None
    assert state.effects == ()
    assert len(set(run.published)) == len(run.published), "something was published twice"
    assert (state.status in TERMINAL) == (state.deadline is None)
    assert (state.status == COMPLETED) == (SAGA_COMPLETED in kinds)
    assert (state.status in (COMPENSATED, FAILED)) == (SAGA_FAILED in kinds)
    if state.status == COMPLETED:
        assert SAGA_COMPENSATION_REQUESTED not in kinds
    if state.status == COMPENSATING:
        assert "compensating" in state.steps.values()
    # A run without a start may be the end of a successful one: an operator has to check.
    unseen = "its start was never seen" in state.error_message
    if unseen and not state.by_hand:
        assert SAGA_COMPENSATION_REQUESTED not in kinds
        assert state.needs_operator
    # Done steps of a failed run are undone or requested to be, unless an operator closed it.
    if state.status in (COMPENSATED, COMPENSATING, FAILED) and not state.by_hand and not unseen:
        for step in run.definition.steps:
            done = any((fact.step, fact.role) == (step.key, DONE) for fact in run.facts)
            # "Everything is undone" covers steps that were done by then, by their own fact or a later step's.
            done_by = [
                fact.at
                for fact in run.facts
                if fact.role in STEP_ROLES and step.key in (fact.step, *run.definition.ancestors.get(fact.step, ()))
            ]
            back = any(
                fact.role == UNDONE
                and (fact.step == step.key or (not fact.step and any(at <= fact.at for at in done_by)))
                for fact in run.facts
            )
            if done and step.can_be_undone and not back:
                assert Effect(SAGA_COMPENSATION_REQUESTED, step.key) in run.published
                assert state.status == COMPENSATING or state.needs_operator


@pytest.mark.requirement("R5-1b", "R5-3.5e")
@given(
    random_runs(), st.lists(st.tuples(st.sampled_from(range(4)), st.sampled_from(STEP_ROLES)), min_size=1, max_size=5)
)
def test_an_ended_run_never_changes_its_status(run: Simulation, late: list[tuple[int, str]]):
    run.pass_time(BEGIN + timedelta(days=900))
    before = run.state
    assert before.status in TERMINAL

    for step, role in late:
        # Happened long ago and arrives now.
        run.facts.append(Fact(role, run.definition.steps[step].key, BEGIN - timedelta(days=1), EVENT, "late", "z"))
        run._settle(BEGIN + timedelta(days=901))

    after = run.state
    kept = (
        "status",
        "current_step",
        "started_at",
        "completed_at",
        "compensation_started_at",
        "error_message",
        "aggregate_id",
        "deadline",
    )
    assert [getattr(before, name) for name in kept] == [getattr(after, name) for name in kept]


def test_a_service_may_report_a_run_as_complete():
    run = Simulation(ORDER)
    for fact in facts([("order", DONE)]):
        run.observe(fact)
    run.observe(Fact(FINISHED, "", at(2), VERB))
    run.observe(Fact(DONE, "inventory", at(3), EVENT))

    assert run.state.status == COMPLETED
    assert not run.state.anomaly


def test_a_service_may_report_everything_as_compensated():
    run = Simulation(ORDER)
    for fact in facts([("order", DONE), ("inventory", DONE), ("payment", FAILURE)]):
        run.observe(fact)
    run.observe(Fact(UNDONE, "", at(4), VERB))

    assert run.state.status == COMPENSATED
    assert run.state.steps["inventory"] == "compensated"


def all_undone_after_a_time_out(origin: str = VERB) -> Simulation:
    """The payment timed out, and everything was reported as undone."""
    run = Simulation(ORDER)
    for fact in facts([("order", DONE), ("inventory", DONE)]):
        run.observe(fact)
    run.observe(Fact(UNDONE, "", TIMED_OUT, origin))
    assert run.state.status == COMPENSATED
    return run


TIMED_OUT = BEGIN + timedelta(minutes=12)
REQUESTED = Effect(SAGA_COMPENSATION_REQUESTED, "payment")


@pytest.mark.parametrize("origin", [VERB, OPERATOR])
def test_a_success_after_everything_was_undone_is_compensated(origin: str):
    run = all_undone_after_a_time_out(origin)
    run.observe(Fact(DONE, "payment", TIMED_OUT + INTERVAL, EVENT))

    assert run.published[-1] == REQUESTED
    assert (run.state.status, run.state.steps["payment"]) == (COMPENSATED, "compensating")
    assert run.state.steps["inventory"] == "compensated"
    assert run.state.needs_operator
    assert run.state.anomaly == "payment done after the end"


def test_a_success_that_becomes_known_after_the_end_is_compensated():
    run = all_undone_after_a_time_out()
    _observe_late(run, Fact(DONE, "payment", TIMED_OUT + INTERVAL, EVENT), 60)

    assert run.published[-1] == REQUESTED
    assert run.state.needs_operator


def test_everything_may_be_reported_as_undone_again_after_a_late_success():
    run = all_undone_after_a_time_out()
    run.observe(Fact(DONE, "payment", TIMED_OUT + INTERVAL, EVENT))
    run.observe(Fact(UNDONE, "", TIMED_OUT + 2 * INTERVAL, OPERATOR))

    assert run.state.steps["payment"] == "compensated"
    assert not run.state.needs_operator


def test_a_success_during_compensation_keeps_the_run_open():
    run = Simulation(ORDER)
    for fact in facts([("order", DONE), ("inventory", DONE), ("payment", FAILURE)]):
        run.observe(fact)
    run.facts.append(Fact(UNDONE, "", at(4), VERB))
    run.observe(Fact(DONE, "payment", at(5), EVENT))

    assert (run.state.status, run.state.current_step) == (COMPENSATING, "payment")


def test_an_unfounded_report_of_compensation_does_not_stop_a_run():
    run = Simulation(ORDER)
    for fact in [*facts([("order", DONE), ("inventory", DONE)]), Fact(UNDONE, "", at(2), OPERATOR)]:
        run.observe(fact)
    assert run.state.anomaly == "run compensated before anything had failed"

    for fact in facts(happy(ORDER)[2:], 3):
        run.observe(fact)

    assert run.state.status == COMPLETED
    assert set(run.state.steps.values()) == {"done"}
    assert run.state.anomaly == "run compensated before anything had failed"


@pytest.mark.parametrize("failure", [True, False], ids=["a failure", "a time-out"])
def test_a_report_of_compensation_before_the_failure_does_not_count(failure: bool):
    run = Simulation(ORDER)
    for fact in [*facts([("order", DONE), ("inventory", DONE)]), Fact(UNDONE, "", at(2), VERB)]:
        run.observe(fact)
    run.observe(Fact(FAILURE, "payment", at(3), EVENT)) if failure else run.pass_time(TIMED_OUT)

    assert (run.state.status, run.state.steps["inventory"]) == (COMPENSATING, "compensating")
    assert run.published[-2:] == [Effect(SAGA_COMPENSATION_REQUESTED, step) for step in ("inventory", "order")]

    run.observe(Fact(UNDONE, "", TIMED_OUT + INTERVAL, VERB))

    assert run.state.status == COMPENSATED


def test_a_presumed_step_is_covered_by_a_report_of_full_compensation():
    run = Simulation(ORDER)
    for fact in facts([("order", DONE), ("payment", FAILURE)]):
        run.observe(fact)
    run.observe(Fact(UNDONE, "", at(4), VERB))
    run.observe(Fact(DONE, "inventory", at(5), EVENT))

    assert (run.state.status, run.state.steps["inventory"]) == (COMPENSATED, "compensated")
    assert not run.state.needs_operator
    assert not run.state.anomaly


def test_a_failure_that_arrives_first_compensates_the_steps_before_it():
    run = Simulation(ORDER)
    for fact in facts([("payment", FAILURE)]):
        run.observe(fact)

    assert run.state.status == COMPENSATING
    assert [effect.step for effect in run.published] == ["inventory", "order"]


def test_an_optional_step_neither_delays_nor_fails_a_run():
    registration = next(definition for definition in DEFINITIONS if definition.name == "customer_registration")
    run = Simulation(registration)
    for fact in facts([*happy(registration)[:-1], ("gift", FAILURE)]):
        run.observe(fact)

    assert run.state.status == COMPLETED
    assert not run.state.anomaly


@pytest.mark.parametrize("role", [DONE, FAILURE])
def test_a_closed_run_is_not_compensated(role: str):
    run = Simulation(ORDER)
    for fact in facts([("order", DONE), ("inventory", DONE)]):
        run.observe(fact)
    run.observe(Fact(CLOSED, "", at(3), OPERATOR, "the customer has called"))
    run.observe(Fact(role, "payment", at(4), EVENT))

    assert run.state.status == FAILED
    assert run.state.error_message == "the customer has called"
    assert run.state.by_hand
    assert not run.state.needs_operator
    assert [effect.kind for effect in run.published] == [SAGA_FAILED]


@pytest.mark.requirement("R5-3.1f")
def test_marking_the_last_step_as_compensated_ends_the_run():
    run = Simulation(ORDER)
    for fact in facts([("order", DONE), ("inventory", FAILURE)]):
        run.observe(fact)
    run.observe(Fact(UNDONE, "order", at(3), OPERATOR, "by hand"))

    assert run.state.status == COMPENSATED
    assert run.state.by_hand


@pytest.mark.requirement("R5-5d")
def test_an_operator_can_resolve_a_failed_compensation():
    run = Simulation(ORDER)
    for fact in facts([("order", DONE), ("inventory", DONE), ("payment", FAILURE), ("inventory", UNDO_FAILED)]):
        run.observe(fact)
    assert run.state.needs_operator
    run.observe(Fact(UNDONE, "inventory", at(5), OPERATOR))
    run.observe(Fact(UNDONE, "order", at(6), EVENT))

    assert run.state.status == FAILED
    assert not run.state.needs_operator


def test_parallel_steps_are_each_timed_from_their_own_start(parallel: Definition):
    run = Simulation(parallel)
    for fact in facts([("a", DONE), ("b", DONE)]):
        run.observe(fact)

    due = run.state.due
    assert due is not None
    assert (due.step, due.at) == ("c", at(0) + timedelta(seconds=60))
    assert run.state.steps == {"a": "done", "b": "done", "c": "running", "d": "waiting"}


@pytest.fixture
def parallel() -> Definition:
    """b and c after a, d after both."""
    from workflows.parsing import parse

    steps = [
        {"key": "a", "done": ["a.done"], "compensated": ["a.undone"]},
        {"key": "b", "done": ["b.done"], "after": ["a"], "timeout_seconds": 60},
        {"key": "c", "done": ["c.done"], "after": ["a"], "timeout_seconds": 60, "failed": ["c.failed"]},
        {"key": "d", "done": ["d.done"], "after": ["b", "c"], "timeout_seconds": 60},
    ]
    return parse({"name": "parallel", "version": 1, "starts": ["a.done"], "steps": steps}, "test")


@pytest.mark.parametrize("role", [UNDONE, UNDO_FAILED])
def test_a_run_with_an_undone_step_does_not_complete(role: str):
    """The service that compensates knows of a failure before the hub does."""
    run = Simulation(ORDER)
    for number, step in enumerate(ORDER.in_order):
        if step is ORDER.in_order[-1]:
            run.observe(Fact(role, "inventory", at(number), EVENT))
        run.observe(Fact(DONE, step.key, at(number), EVENT))

    assert run.state.status == IN_PROGRESS
    assert run.state.current_step == "inventory"
    run.observe(Fact(FAILURE, "payment", at(9), EVENT))
    assert run.state.status in (COMPENSATING, FAILED)


def test_a_fact_with_a_role_of_another_program_is_refused():
    with pytest.raises(UnreadableFact, match="of a newer version"):
        fold(ORDER, [Fact(DONE, "order", BEGIN, EVENT), Fact("of a newer version", "order", BEGIN, EVENT)])
