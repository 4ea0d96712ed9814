"""What settling writes to a saga."""

from __future__ import annotations

import pytest

from sagas.dispatch import dispatch
from sagas.models import Saga
from sagas.settle import Settler
from tests.conformance import world
from tests.factories import JobFactory, SagaFactory
from tests.support import guards, legal_steps
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.mark.requirement("R1-2.1h", "R1-5.4c")
def test_an_ended_saga_was_updated_when_it_ended():
    world.subscribe("ok", "dead")
    world.publish_some("a")
    world.route()
    dispatch(10)
    world.deliver()

    before = clock.now()
    world.settle()
    after = clock.now()

    ended = dict(Saga.objects.values_list("status", "updated_at"))
    assert set(ended) == {"Completed", "DeadLettered"}
    for updated_at in ended.values():
        assert before <= updated_at <= after


def test_a_result_of_an_earlier_attempt_is_marked_and_not_applied_again():
    """A crash between the two writes leaves it unsettled; by then the next attempt may be running."""
    saga = SagaFactory.create(status="InProgress", attempt_count=0)
    late = JobFactory.create(saga=saga, status="Failed", finished_at=clock.now())
    legal_steps.update(saga, status="PendingRetry", attempt_count=1)
    legal_steps.begin(saga)

    world.settle()

    late.refresh_from_db()
    saga.refresh_from_db()
    assert (saga.status, saga.attempt_count) == ("InProgress", 1)
    assert late.settled_at is not None


def test_a_hint_of_an_earlier_attempt_does_not_complete_a_later_one(committed: None):
    with guards.switched_off():  # a Completed job ends its saga
        sagas = SagaFactory.create_batch(2, status="InProgress", attempt_count=1)
        late = [JobFactory.create(saga=saga, status="Completed", finished_at=clock.now()) for saga in sagas]
        settler = Settler()
        settler.hinted.add([job.id for job in late])
        settler.settle_hinted(10)

    assert set(Saga.objects.values_list("status", "attempt_count")) == {("InProgress", 1)}
