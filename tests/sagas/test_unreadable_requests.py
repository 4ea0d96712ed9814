"""Requests with conditions that another program has stored and nothing can apply: they are set aside, each once."""

from __future__ import annotations

from dataclasses import fields

import pytest

from sagas.apply_requests import apply_requests
from sagas.models import ABANDON, DeliveryRequest, Saga
from sagas.requests import InvalidConditions, RequestFilter, request_delivery
from tests.conformance import world
from tests.webhookhub.integrity.support import audit, keys
from webhookhub.ids import new_token
from webhookhub.integrity.checks.requests import CONDITIONS

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]

UNREADABLE = [
    "{}",
    '{"typo": 1}',
    '{"status": "Pending", "typo": 1}',
    '{"status": 5}',
    '{"event_type": ["a"]}',
    '{"subscription_ids": "abc"}',
    '{"subscription_ids": [1.5]}',
    '{"since": "yesterday"}',
    '{"since": "2026-01-01T00:00:00"}',
    '{"until": null, "since": null}',
]


@pytest.mark.parametrize("conditions", [*UNREADABLE, "[]", "5", "no JSON", "[" * 100_000])
def test_other_conditions_than_those_of_a_filter_are_an_error(conditions: str):
    with pytest.raises(InvalidConditions):
        RequestFilter.from_json(conditions)


def test_the_integrity_check_knows_the_conditions_of_a_filter():
    assert set(CONDITIONS) == {field.name for field in fields(RequestFilter)}


@pytest.mark.parametrize("conditions", UNREADABLE)
def test_a_request_that_cannot_be_read_does_not_stop_the_next_one(conditions: str, log_stream):
    world.subscribe("ok")
    world.publish_some("a")
    world.route()
    [saga] = Saga.objects.all()
    row = {"conditions": conditions, "max_saga_id": saga.pk, "request_token": new_token()}
    unreadable = DeliveryRequest.objects.create(kind=ABANDON, requested_by="ada", reason="r", **row)
    later = request_delivery(ABANDON, saga.pk, by=world.Staff(), reason="obsolete").request

    for _ in range(4):
        apply_requests(10)

    unreadable.refresh_from_db()
    later.refresh_from_db()
    assert unreadable.due_at is None
    assert unreadable.applied_at is not None
    assert (unreadable.changed, later.changed) == (0, 1)
    assert log_stream.getvalue().count('"request_invalid"') == 1
    assert Saga.objects.get().status == "DeadLettered"
    assert {name: keys(result) for name, result in audit().items()} == {"request-conditions": [unreadable.pk]}
