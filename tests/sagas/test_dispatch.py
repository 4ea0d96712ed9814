"""Due sagas get their job; those of a switched-off subscription wait without losing an attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.models import Job
from sagas.dispatch import admit, dispatch
from sagas.flow import Flow
from sagas.models import PARKED, Saga
from tests.factories import SagaFactory
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.mark.requirement("R1-3e", "R1-4.1b", "R1-4.1e", "R1-7.2b")
@pytest.mark.requirement("R2-2.1e")
def test_a_due_saga_gets_one_job_numbered_after_its_attempts():
    saga = SagaFactory.create(status="PendingRetry", attempt_count=1)

    assert dispatch(10) == 1
    assert dispatch(10) == 0

    job = Job.objects.latest("id")
    assert (job.saga_id, job.attempt_no, job.attempt_at) == (saga.id, 2, saga.next_attempt_at)
    assert Job.objects.count() == 2
    assert Saga.objects.get().status == "InProgress"


@pytest.mark.requirement("R1-2.1f", "R1-5.3b")
def test_a_saga_that_is_not_due_gets_no_job():
    SagaFactory.create(status="PendingRetry", attempt_count=1, next_attempt_at=clock.now() + timedelta(hours=1))

    assert dispatch(10) == 0
    assert not Job.objects.filter(attempt_no=2).exists()


@pytest.mark.requirement("R3-2.2d")
@pytest.mark.parametrize("off", [{"active": False}, {"verified": False}])
def test_sagas_of_a_disabled_subscription_are_parked_without_an_attempt(off):
    saga = SagaFactory.create(**{f"subscription__{name}": value for name, value in off.items()})

    assert dispatch(10) == 1

    after = Saga.objects.get()
    assert (after.status, after.attempt_count) == ("Pending", 0)
    assert (after.next_attempt_at, after.parked_subscription_id) == (PARKED, saga.subscription_id)
    assert dispatch(10) == admit(10, Flow()) == 0
    assert not Job.objects.exists()


def test_a_parked_saga_continues_when_its_subscription_is_enabled():
    saga = SagaFactory.create(subscription__active=False)
    dispatch(10)
    saga.subscription.active = True
    saga.subscription.save(update_fields=["active"])

    assert admit(10, Flow()) == 1

    assert Job.objects.get().attempt_no == 1
    assert Saga.objects.get().status == "InProgress"


@pytest.mark.requirement("R1-5.4a", "R1-7.2c", "R1-7.3a", "R1-7.4c")
def test_no_job_is_created_for_a_saga_that_is_not_waiting():
    for status in ("InProgress", "Completed", "DeadLettered"):
        SagaFactory.create(status=status)
    before = Job.objects.count()

    assert dispatch(10) == 0
    assert Job.objects.count() == before


def test_a_retry_is_due_after_the_attempt_before_even_if_another_program_has_moved_it_back():
    sagas = [SagaFactory.create(status="PendingRetry", attempt_count=1) for _ in range(2)]
    Saga.objects.filter(id=sagas[0].id).update(next_attempt_at=datetime(2020, 1, 1, tzinfo=UTC))

    assert dispatch(10) == 2

    before, after = Job.objects.filter(saga=sagas[0]).order_by("attempt_no")
    assert after.attempt_at == before.attempt_at + timedelta(microseconds=1)
    assert Job.objects.get(saga=sagas[1], attempt_no=2).attempt_at == sagas[1].next_attempt_at
