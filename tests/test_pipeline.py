"""From publish() to a real HTTPS endpoint."""

from __future__ import annotations

import json

import pytest

from events.intake import publish
from events.routing import Router
from jobs.worker import Worker
from sagas.dispatch import dispatch
from sagas.models import Saga
from sagas.settle import Settler
from tests.factories import SubscriptionFactory
from tests.webhookhub.integrity.support import assert_clean
from tools.demo.endpoint import HttpsEndpoint, Reply

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


def run_until_terminal(turns: int = 500) -> None:
    router, settler, worker = Router(), Settler(), Worker("test-worker")
    try:
        for _ in range(turns):
            router.route(100)
            dispatch(100)
            worker.turn(100)
            settler.settle(100)
            if not Saga.objects.exclude(status__in=["Completed", "DeadLettered"]).exists():
                assert_clean()
                return
        raise AssertionError("some sagas did not end")
    finally:
        worker.close()


@pytest.mark.requirement("R1-1a", "R1-3c")
@pytest.mark.requirement("R2-2.3c")
@pytest.mark.requirement("R3-2.1a")
def test_an_event_is_delivered_to_every_matching_subscription(endpoint: HttpsEndpoint):
    SubscriptionFactory(callback_url=endpoint.url("/a"))
    SubscriptionFactory(callback_url=endpoint.url("/b"))
    SubscriptionFactory(callback_url=endpoint.url("/other"), event_type="order.cancelled")
    SubscriptionFactory(callback_url=endpoint.url("/off"), active=False)
    SubscriptionFactory(callback_url=endpoint.url("/unverified"), verified=False)

    event = publish("order.created", {"order": 7, "name": "Zoë"}, external_id="x1")
    run_until_terminal()

    assert sorted(request.path for request in endpoint.received) == ["/a", "/b"]
    for request in endpoint.received:
        assert request.headers["webhook-id"] == str(event.uid)
        assert json.loads(request.body)["data"] == {"order": 7, "name": "Zoë"}
    assert set(Saga.objects.values_list("status", "attempt_count")) == {("Completed", 1)}


@pytest.mark.requirement("R1-1a", "R1-2.1g", "R1-8.1e", "R1-8.2c")
def test_a_failing_delivery_is_retried_with_the_same_bytes(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(503 if request.attempt < 3 else 204, b"")
    SubscriptionFactory(callback_url=endpoint.url())

    publish("order.created", {"order": 7})
    run_until_terminal()

    assert [request.attempt for request in endpoint.received] == [1, 2, 3]
    assert len({request.body for request in endpoint.received}) == 1
    assert len({request.event_uid for request in endpoint.received}) == 1
    saga = Saga.objects.get()
    assert (saga.status, saga.attempt_count, saga.final_error_code) == ("Completed", 3, "http_503")


@pytest.mark.requirement("R1-1a", "R1-4.1d", "R1-5.5a", "R1-8.1h")
@pytest.mark.requirement("R2-1b", "R2-3.1d", "R2-3.1f")
def test_a_delivery_that_keeps_failing_becomes_a_dead_letter(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(500)
    SubscriptionFactory(callback_url=endpoint.url(), max_retry_limit=2)

    publish("order.created", {"order": 7})
    run_until_terminal()

    saga = Saga.objects.get()
    [letter] = saga.dead_letters.all()
    assert (saga.status, saga.attempt_count) == ("DeadLettered", 2)
    assert letter.final_error_code == "http_500"
    assert json.loads(letter.payload_snapshot) == {"order": 7}
