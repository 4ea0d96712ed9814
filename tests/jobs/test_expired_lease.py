"""A job with an expired lease waits for the cleaner."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.cleaner import clean
from jobs.lease import lease
from jobs.models import Job
from tests.factories import JobFactory
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.mark.requirement("R2-2.4e")
def test_a_worker_does_not_take_over_an_expired_lease():
    past = clock.now() - timedelta(seconds=1)
    job = JobFactory.create(status="Leased", lease_until=past, lease_token="token", worker_id="gone")

    assert lease("next", 10) == []
    assert Job.objects.values_list("status", "worker_id").get() == ("Leased", "gone")

    clean(10)

    assert [leased.id for leased in lease("next", 10)] == [job.id]
