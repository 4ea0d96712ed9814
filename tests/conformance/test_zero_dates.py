"""An event with the zero date, which reads as no time, is delivered and stops nothing.

A check refuses such an event; one that was stored before there was a check stays.
"""

from __future__ import annotations

import pytest
from django.db import connection

from events.models import Event
from sagas.dispatch import dispatch
from sagas.models import Saga
from tests.conformance import world
from tests.support.unchecked import unchecked
from webhookhub.console.request_preview import body

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.mysql_family]


def test_an_event_without_a_time_and_those_behind_it_are_delivered():
    world.subscribe("ok")
    with unchecked(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO events (event_type, source, correlation_id, payload, created_at) "
            "VALUES (%s, 'sql', 'c', '{}', '0000-00-00 00:00:00')",
            [world.TYPE],
        )
    world.publish_some("behind")
    event = Event.objects.get(source="sql")
    assert Event.objects.filter(source="sql").values_list("created_at", flat=True)[0] is None

    world.route()
    dispatch(10)
    [first] = [job for job in world.take() if job.correlation_id == "c"]
    world.expire_leases()
    world.run_to_end()

    assert list(Saga.objects.values_list("status", flat=True)) == ["Completed", "Completed"]
    assert '"timestamp":"1970-01-01T00:00:00Z"' in body(event)
    assert first.event_created_at == "1970-01-01T00:00:00Z"
