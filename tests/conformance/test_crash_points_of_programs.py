"""What programs ask for by the API, and what a tracker does before it tracks, may die at any statement too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

from api import keys, limits, scopes
from api.models import ApiKey
from tests.conftest import empty_tables
from tests.factories import EventFactory
from webhookhub.db import clock
from workflows import services
from workflows.models import Fact, Instance, TrackedType, WorkflowInbox
from workflows.registry import registry
from workflows.tracked_types import CatchUp, listen, not_needed, untrack

from .crashes import interrupted

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]
Work = Callable[[], object]
numbers = count(1)
WORKFLOW = "order_submission"


def to_start_a_workflow() -> Work:
    key = f"started {next(numbers)}"
    return lambda: services.start(WORKFLOW, key, idempotency_key="k", actor="shop")


def to_listen() -> Work:
    TrackedType.objects.all().delete()
    TrackedType.objects.create(event_type="nobody.listens", tracked_since=clock.now(), caught_up=True)
    return lambda: listen(registry())


def to_untrack() -> Work:
    """A person does, with the command."""
    to_listen()()
    return lambda: untrack(not_needed(registry()))


def to_catch_up() -> Work:
    """With an event from before its type was tracked, which no trigger has put into the inbox."""
    TrackedType.objects.all().delete()
    began = clock.now() - timedelta(hours=2)
    EventFactory.create(event_type="order.submitted", correlation_id="early", created_at=began - timedelta(minutes=5))
    TrackedType.objects.create(event_type="order.submitted", tracked_since=began, caught_up=False)
    WorkflowInbox.objects.all().delete()
    return lambda: CatchUp().catch_up(500)


def new_key() -> str:
    return keys.create(f"program {next(numbers)}", [scopes.EVENTS_WRITE], by="anna")[1]


def to_use_a_key() -> Work:
    text = new_key()
    return lambda: keys.find(text)


def to_spend() -> Work:
    limits._buckets.clear()  # a process remembers what it has taken for a key
    caller = keys.find(new_key())
    assert caller is not None
    return lambda: limits.consume(caller, 1)


OF_PROGRAMS = [to_start_a_workflow, to_listen, to_untrack, to_catch_up, to_use_a_key, to_spend]


def test_a_workflow_is_started_once_wherever_its_start_is_interrupted():
    def alone() -> Work:
        empty_tables()  # of the definitions in use, too
        return to_start_a_workflow()

    for point, work in interrupted(alone):
        work()
        work()
        assert Instance.objects.count() == 1, point
        assert Fact.objects.count() == 1, point


def test_the_event_types_of_all_definitions_are_tracked_wherever_it_was_interrupted():
    for point, work in interrupted(to_listen):
        work()
        tracked = set(TrackedType.objects.values_list("event_type", flat=True))
        assert tracked == {"nobody.listens", *registry().listeners}, point


def test_only_unused_event_types_are_untracked_wherever_it_was_interrupted():
    for point, work in interrupted(to_untrack):
        work()
        assert set(TrackedType.objects.values_list("event_type", flat=True)) == set(registry().listeners), point


def test_a_type_is_not_caught_up_before_its_early_events_are_in_the_inbox():
    for point, work in interrupted(to_catch_up):
        waiting = WorkflowInbox.objects.exists()
        assert waiting or not TrackedType.objects.get().caught_up, point
        work()
        assert WorkflowInbox.objects.exists(), point
        assert TrackedType.objects.get().caught_up, point


def test_a_key_works_and_its_use_is_recorded_wherever_that_was_interrupted():
    for point, work in interrupted(to_use_a_key):
        assert work() is not None, point
        assert ApiKey.objects.latest("id").last_used_at is not None, point


def test_an_interrupted_count_of_events_blocks_nothing():
    for _, work in interrupted(to_spend):
        work()  # it would raise Problem
        assert ApiKey.objects.latest("id").spent_until > 0
