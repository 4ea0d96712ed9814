"""Expired leases are reset, once, and nothing else is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.cleaner import clean
from jobs.models import Job
from sagas.models import Saga
from tests.factories import JobFactory
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


def leased(expires_in: float, **fields: object) -> Job:
    until = clock.now() + timedelta(seconds=expires_in)
    job: Job = JobFactory.create(status="Leased", lease_until=until, lease_token="token", worker_id="gone", **fields)
    return job


@pytest.mark.requirement("R2-2.4a", "R2-2.4b")
def test_an_expired_lease_is_reset_and_counted():
    job = leased(-1)
    expired_at = job.lease_until

    assert clean(10) == 1

    job.refresh_from_db()
    assert (job.status, job.lease_resets) == ("Pending", 1)
    assert expired_at is not None
    assert job.lease_until is not None
    assert expired_at < job.lease_until <= clock.now()  # ready at once, behind those that waited
    assert (job.lease_token, job.worker_id) == ("token", "gone")


@pytest.mark.requirement("R2-2.4d")
def test_resetting_again_changes_nothing():
    job = leased(-1)
    clean(10)

    assert clean(10) == 0

    job.refresh_from_db()
    assert job.lease_resets == 1


@pytest.mark.requirement("R2-2.4a", "R2-2.4b")
def test_a_lease_that_has_not_expired_is_left_alone():
    job = leased(60)

    assert clean(10) == 0

    job.refresh_from_db()
    assert (job.status, job.lease_resets) == ("Leased", 0)


@pytest.mark.requirement("R2-2.4b")
def test_a_job_that_is_not_leased_is_left_alone():
    past = clock.now() - timedelta(hours=1)
    statuses = ["Pending", "Completed", "Failed"]
    for status in statuses:
        JobFactory.create(status=status, lease_until=past, finished_at=past)

    assert clean(10) == 0

    assert list(Job.objects.order_by("id").values_list("status", "lease_resets")) == [(each, 0) for each in statuses]


def test_a_batch_resets_the_longest_expired_first():
    jobs = [leased(-seconds) for seconds in (1, 30, 20)]

    assert clean(2) == 2

    assert [Job.objects.get(id=job.id).status for job in jobs] == ["Leased", "Pending", "Pending"]
    assert clean(2) == 1
    assert clean(2) == 0


@pytest.mark.requirement("R4-4.2d")
def test_the_saga_is_not_touched():
    job = leased(-1)
    before = Saga.objects.filter(id=job.saga_id).values().get()

    clean(10)

    assert Saga.objects.filter(id=job.saga_id).values().get() == before
