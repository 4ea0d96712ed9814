"""Every step may die before or after any of its statements: done again, it ends as if nothing had happened.

Each case has an event type of its own and is brought to its end, so that what it leaves behind is at rest.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from itertools import count

import pytest

from jobs.models import Job
from sagas.models import Saga
from tests.webhookhub.integrity.support import assert_clean

from . import world
from .crashes import Point, Statement, crash, points_of_change, statements_of
from .state import State, state
from .steps import STEPS, Step

pytestmark = pytest.mark.every_engine

numbers = count(1)


@pytest.fixture(autouse=True)
def _patient(committed, hub_settings):
    """What is put off is seen to be put off; and when all is over, the audit finds nothing."""
    hub_settings(base_delay=timedelta(hours=1), postpone=timedelta(hours=1))
    yield
    assert_clean()


def fresh_type() -> str:
    return f"case{next(numbers)}.happened"


@pytest.mark.requirement("R1-2.1e", "R1-3h", "R1-5.2a", "R1-6.1b", "R1-6.4a", "R1-8.1g", "R1-8.1h", "R1-10.2a")
@pytest.mark.requirement("R2-3.1c", "R2-3.1d", "R2-5.2a")
@pytest.mark.requirement("R3-3.3a", "R3-3.4f")
@pytest.mark.requirement("R4-1.2d", "R4-3.1a")
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_interrupted_at_any_statement_and_run_again_ends_as_if_undisturbed(step):
    event_type = fresh_type()
    see = partial(state, ignoring=step.ignoring)
    statements = statements_of(step.prepare(event_type))
    done = see(event_type)
    ended = end(event_type, step)
    assert any(statement.writes for statement in statements)

    for point in points_of_change(statements):
        event_type = fresh_type()
        work = step.prepare(event_type)
        crash(work, point)
        step.recover()
        work()
        assert see(event_type) == done, where(point, statements)
        assert end(event_type, step) == ended, where(point, statements)


@pytest.mark.requirement("R4-2.1a", "R4-2.1b")
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_interrupted_at_any_write_while_others_continue_ends_the_same(step):
    event_type = fresh_type()
    statements = statements_of(step.prepare(event_type))
    ended = end(event_type, step)

    for point in points_of_change(statements):
        event_type = fresh_type()
        work = step.prepare(event_type)
        crash(work, point)
        world.one_turn()
        step.recover()
        work()
        assert end(event_type, step) == ended, where(point, statements)


def end(event_type: str, step: Step) -> State:
    """Bring everything to its end, which is the end of each delivery exactly once."""
    world.run_to_end()
    for saga in Saga.objects.filter(event__event_type=event_type):
        jobs = list(Job.objects.filter(saga=saga).order_by("attempt_no"))
        assert [job.attempt_no for job in jobs] == list(range(1, saga.attempt_count + 1))
        assert Counter(job.status for job in jobs)["Completed"] == (saga.status == "Completed")
        assert all(job.settled_at for job in jobs)
        assert saga.dead_letters.count() == (saga.status == "DeadLettered")
    return state(event_type, ignoring=step.ignoring)


def where(point: Point, statements: list[Statement]) -> str:
    return f"{point}: {statements[point.statement - 1].sql[:200]}"
