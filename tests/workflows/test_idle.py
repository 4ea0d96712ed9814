"""While run_workflows is idle, its conditions replace its queries, and they miss no work."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.workflows.lives import ORDER
from tests.workflows.support import instance, tell
from webhookhub.db import clock
from webhookhub.db.exists import which_exist
from webhookhub.runner.step import Step
from workflows import services
from workflows.management.commands.run_workflows import Command
from workflows.models import Instance
from workflows.scenarios import happy

pytestmark = pytest.mark.django_db


@pytest.fixture
def idle_step() -> Step:
    step = Command().make_step("workflows")
    settle_down(step)
    return step


def settle_down(step: Step) -> None:
    while step.run(100):
        pass
    assert not has_work(step)


def has_work(step: Step) -> bool:
    """What one query finds while the step is idle."""
    conditions = step.conditions()
    assert conditions
    return any(which_exist(*conditions))


def test_an_event_is_work(idle_step: Step):
    tell(ORDER, happy(ORDER)[0], "k-1")
    assert has_work(idle_step)
    assert idle_step.run(100)
    assert instance("k-1", ORDER.name).status == "IN_PROGRESS"


def test_a_reported_fact_is_work(idle_step: Step):
    services.start(ORDER.name, "k-1", idempotency_key="1", actor="shop")
    assert has_work(idle_step)
    assert idle_step.run(100)
    assert instance("k-1", ORDER.name).deadline is not None


@pytest.mark.requirement("R5-3.5a")
def test_a_passed_deadline_is_work(idle_step: Step):
    tell(ORDER, happy(ORDER)[0], "k-1")
    settle_down(idle_step)
    later = Instance.objects.get().deadline
    assert later is not None
    Instance.objects.update(deadline=clock.now() - timedelta(seconds=1))
    assert has_work(idle_step)
    # By the facts the deadline has not passed: the row is corrected.
    with CaptureQueriesContext(connection) as captured:
        idle_step.run(100)
    assert len(captured) > 1
