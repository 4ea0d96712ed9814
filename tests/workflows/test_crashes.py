"""A crash of a tracker or monitor before or after any statement is repaired by the next run of the step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

from tests.conformance.crashes import crash, interrupted, points_of_change, statements_of
from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, differences, expire, instance, published, tell, told_before, tracked
from workflows import services
from workflows.models import Fact, Instance, WorkflowInbox
from workflows.registry import registry
from workflows.scenarios import happy
from workflows.state import DONE, FAILURE, STARTED
from workflows.tracker import Tracker

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]
numbers = count(1)
Work = Callable[[], object]


def to_complete(key: str) -> Work:
    for report in happy(ORDER):
        tell(ORDER, report, key)
    return lambda: Tracker(registry()).track(500)


def to_fail(key: str) -> Work:
    for report in [("order", DONE), ("inventory", DONE), ("payment", FAILURE)]:
        tell(ORDER, report, key)
    return lambda: Tracker(registry()).track(500)


def to_time_out(key: str) -> Work:
    for report in happy(ORDER)[:2]:
        told_before(ORDER, report, key, timedelta(minutes=11))
    catch_up()
    return expire


def to_be_reported(key: str) -> Work:
    tell(ORDER, ("order", DONE), key)
    catch_up()
    services.act(instance(key), "closed", idempotency_key="c", actor="olga", reason="enough")
    return lambda: Tracker(registry()).touch(500)


def to_begin_with_a_past(key: str) -> Work:
    """All events but the last were published before the hub listened."""
    past = [tell(ORDER, report, key).id for report in happy(ORDER)[:-1]]
    WorkflowInbox.objects.filter(event_id__in=past).delete()
    tell(ORDER, happy(ORDER)[-1], key)
    return lambda: Tracker(registry()).track(500)


def seen(key: str) -> object:
    """All data of a run except ids and times."""
    run = instance(key)
    facts = sorted(Fact.objects.filter(instance=run).values_list("step", "role", "origin", "decision_no"), key=str)
    return run.status, run.current_step, run.steps, run.error_message, facts, published(key)


@pytest.mark.requirement("R5-3.4a", "R5-3.4c", "R5-3.4d")
@pytest.mark.parametrize("prepare", [to_complete, to_fail, to_time_out, to_be_reported, to_begin_with_a_past])
def test_a_crash_at_any_statement_does_not_change_the_outcome(prepare: Callable[[str], Work]):
    tracked()
    prepare("first")()  # from now on the definition is in use
    key = f"k-{next(numbers)}"
    statements = statements_of(prepare(key))
    undisturbed = seen(key)
    assert len(statements) > 10

    for point in points_of_change(statements):
        key = f"k-{next(numbers)}"
        crash(prepare(key), point)
        WorkflowInbox.objects.update(lease_until=None)  # its lease expires
        catch_up()
        expire()
        assert seen(key) == undisturbed, point
    assert differences() == []


def test_a_crash_while_starting_a_run_leaves_no_run_without_a_fact():
    tracked()
    keys = (f"k-{number}" for number in count(1))

    def prepare() -> Work:
        key = next(keys)
        return lambda: services.start("order_submission", key, idempotency_key="s", actor="shop")

    prepare()()  # from now on the definition is in use
    for point, work in interrupted(prepare):
        assert not Instance.objects.exclude(facts__role=STARTED).exists(), point
        work()  # the caller got no response and repeats the request
    catch_up()

    assert Instance.objects.count() == Fact.objects.filter(role=STARTED).count()
    assert not Instance.objects.filter(deadline=None).exists()
