"""Leases of hinted jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.lease import lease_hinted
from jobs.models import Job
from sagas.dispatch import dispatch
from tests.conformance import world
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]


def test_an_expired_lease_of_another_worker_is_not_taken_by_a_hint():
    """The cleaner resets it first, and counts the reset."""
    world.subscribe("ok")
    world.publish_some("a")
    world.route()
    dispatch(world.BATCH)
    [taken] = world.take()
    Job.objects.update(lease_until=clock.now() - timedelta(hours=1))

    assert lease_hinted("another", [taken.id]) == []

    assert Job.objects.get().worker_id == world.WORKER
