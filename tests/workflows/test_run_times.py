"""The times of a run: its start, its time-out, the start of its compensation, its end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.workflows.lives import DEFINITIONS
from tests.workflows.support import catch_up, instance, tell, told_before, tracked
from webhookhub.db import clock
from workflows.models import Instance
from workflows.parsing import parse
from workflows.scenarios import happy
from workflows.state import DONE, FAILURE, UNDONE

pytestmark = pytest.mark.django_db
ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")


def seconds_ago(run: Instance, name: str) -> float:
    return float((clock.now() - getattr(run, name)).total_seconds())


@pytest.mark.requirement("R5-3.2e", "R5-3.2g")
def test_a_run_has_the_times_of_its_start_and_end():
    tracked()
    told_before(ORDER, ("order", DONE), "k-1", timedelta(minutes=4))
    catch_up()
    run = instance("k-1")
    assert (run.status, run.completed_at, run.compensation_started_at) == ("IN_PROGRESS", None, None)
    assert 240 <= seconds_ago(run, "started_at") < 300

    for said in happy(ORDER)[1:]:
        tell(ORDER, said, "k-1")
    catch_up()

    run = instance("k-1")
    assert (run.status, run.compensation_started_at) == ("COMPLETED", None)
    assert 240 <= seconds_ago(run, "started_at") < 300
    assert 0 <= seconds_ago(run, "completed_at") < 60


@pytest.mark.requirement("R5-3.2h", "R5-3.2i")
def test_a_failed_run_has_the_time_at_which_its_compensation_started():
    tracked()
    for said in [("order", DONE), ("inventory", FAILURE)]:
        tell(ORDER, said, "k-1", reason="no stock")
    catch_up()
    run = instance("k-1")
    assert (run.status, run.error_message, run.completed_at) == ("COMPENSATING", "no stock", None)
    assert 0 <= seconds_ago(run, "compensation_started_at") < 60

    tell(ORDER, ("order", UNDONE), "k-1")
    catch_up()

    after = instance("k-1")
    assert (after.status, after.compensation_started_at) == ("COMPENSATED", run.compensation_started_at)
    assert after.completed_at is not None
    assert run.compensation_started_at is not None
    assert after.completed_at >= run.compensation_started_at


@pytest.mark.requirement("R5-3.5b")
def test_a_run_times_out_after_thirty_minutes_unless_its_definition_says_otherwise():
    document = {"name": "sample", "version": 1, "starts": ["a"], "steps": [{"key": "one", "done": ["a"]}]}

    assert parse(document, "x").timeout == timedelta(minutes=30)
    assert parse({**document, "timeout_seconds": 5}, "x").timeout == timedelta(seconds=5)
