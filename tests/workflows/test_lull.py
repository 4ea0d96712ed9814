"""In a lull run_workflows asks one question a turn, and misses nothing by it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.workflows.lives import DEFINITIONS, happy
from tests.workflows.support import instance, tell
from webhookhub.db import clock
from webhookhub.runner.step import Step
from workflows import services
from workflows.management.commands.run_workflows import Command
from workflows.models import Instance

pytestmark = pytest.mark.django_db
ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")


@pytest.fixture
def in_a_lull() -> Step:
    step = Command().make_step("workflows")
    settle_down(step)
    return step


def settle_down(step: Step) -> None:
    while step.run(100):
        pass
    with CaptureQueriesContext(connection) as captured:
        assert step.run(100) == 0
    assert len(captured) == 1


def test_an_event_ends_the_lull(in_a_lull: Step):
    tell(ORDER, happy(ORDER)[0], "k-1")
    assert in_a_lull.run(100)
    assert instance("k-1", ORDER.name).status == "IN_PROGRESS"


def test_a_fact_that_is_told_ends_the_lull(in_a_lull: Step):
    services.start(ORDER.name, "k-1", idempotency_key="1", actor="shop")
    assert in_a_lull.run(100)
    assert instance("k-1", ORDER.name).deadline is not None


def test_a_deadline_that_passes_ends_the_lull(in_a_lull: Step):
    tell(ORDER, happy(ORDER)[0], "k-1")
    settle_down(in_a_lull)
    later = Instance.objects.get().deadline
    assert later is not None
    Instance.objects.update(deadline=clock.now() - timedelta(seconds=1))
    # By the facts it has not passed yet: it is looked at, and put right.
    with CaptureQueriesContext(connection) as captured:
        in_a_lull.run(100)
    assert len(captured) > 1
