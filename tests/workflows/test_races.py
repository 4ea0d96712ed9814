"""Concurrent trackers and monitors on one run: each decision is taken once, and no row goes back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.rivals import Rival, together
from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, differences, expire, instance, published, tell, told_before, tracked
from webhookhub.stats import counters
from workflows.models import Fact, Instance, WorkflowInbox
from workflows.registry import registry
from workflows.scenarios import happy
from workflows.state import DONE, FAILURE
from workflows.tracker import Tracker

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]
INSERT_FACTS = "INSERT INTO saga_facts"
READ_FACTS = "SELECT saga_facts.instance_id AS instance_id, saga_facts.role"


def track(batch_size: int = 500) -> int:
    return Tracker(registry()).track(batch_size)


@pytest.mark.requirement("R5-3.5e")
def test_completion_during_a_time_out_has_one_outcome():
    tracked()
    for report in happy(ORDER)[:4]:
        told_before(ORDER, report, "k", timedelta(minutes=8))
    catch_up()
    with Rival(expire, before=INSERT_FACTS) as monitor:
        monitor.reached()  # it has read that the last step is overdue, and is about to decide
        tell(ORDER, ("confirmation", DONE), "k")
        track()
        assert instance("k").status == "COMPLETED"
        monitor.result()

    assert instance("k").status == "COMPLETED"
    assert published("k") == [("saga.completed", None)]
    assert differences() == []


def test_a_time_out_during_completion_has_one_outcome():
    tracked()
    for report in happy(ORDER)[:4]:
        told_before(ORDER, report, "k", timedelta(minutes=8))
    catch_up()
    told_before(ORDER, ("confirmation", DONE), "k", timedelta(minutes=2))
    with Rival(lambda: (track(), track()), before=READ_FACTS) as tracker:
        tracker.reached()  # the last fact is written, and not yet folded
        WorkflowInbox.objects.all().delete()  # so that the monitor does not wait for it
        expire()
        tracker.result()

    # The monitor has read the fact too, so it completes the run.
    assert instance("k").status == "COMPLETED"
    assert published("k") == [("saga.completed", None)]
    assert differences() == []


@pytest.mark.requirement("R5-1e")
def test_two_trackers_with_events_of_one_run_miss_none():
    tracked()
    tell(ORDER, ("order", DONE), "k")
    catch_up()
    for report in [("inventory", DONE), ("payment", DONE)]:
        tell(ORDER, report, "k")
    with Rival(lambda: track(1), after=READ_FACTS) as slow:
        slow.reached()  # it has read one of the two facts, and will write a row that knows of one
        track(1)
        slow.result()
    catch_up()

    assert instance("k").current_step == "shipping"
    assert differences() == []


@pytest.mark.requirement("R5-3.4d")
def test_a_lost_write_is_folded_again_and_counted_once():
    tracked()
    tell(ORDER, ("order", DONE), "k")
    catch_up()
    for report in [("inventory", DONE), ("payment", DONE)]:
        tell(ORDER, report, "k")
    with Rival(lambda: track(1), after=READ_FACTS) as first:
        first.reached()  # it knows of one of the two facts
        with Rival(lambda: track(1), after=READ_FACTS) as second:
            second.reached()  # it knows of both, and has read the same row
            first.result()
            second.result()  # loses the write and must fold again: its event has left the inbox

    assert not WorkflowInbox.objects.exists()
    assert instance("k").current_step == "shipping"
    kept = counters.read()
    for step in ("order", "inventory", "payment"):
        assert kept[counters.WORKFLOW_STEPS, f"order_submission/{step}"] == 1
    assert differences() == []


@pytest.mark.requirement("R5-1f", "R5-3.6a")
def test_concurrent_trackers_track_each_event_once():
    tracked()
    for number in range(30):
        story = happy(ORDER) if number % 2 else [("order", DONE), ("inventory", DONE), ("payment", FAILURE)]
        for report in story:
            tell(ORDER, report, f"k-{number}")

    together(*[lambda: [track(7) for _ in range(12)]] * 3)
    catch_up()

    assert Instance.objects.filter(status="COMPLETED").count() == 15
    assert Instance.objects.filter(status="COMPENSATING").count() == 15
    assert Fact.objects.filter(role="emitted").count() == 15 + 30
    assert differences() == []
