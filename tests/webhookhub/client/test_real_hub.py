"""The client against the hub's own API, over a real connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from pytest_django.live_server_helper import LiveServer

from api import keys, limits
from api.scopes import DELIVERIES_ABANDON, DELIVERIES_SEND, EVENTS_WRITE, READ, REQUEUE
from events.models import Event as StoredEvent
from sagas.apply_requests import apply_requests
from sagas.models import DeliveryRequest, Saga
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.client import (
    Client,
    Conflict,
    Event,
    Failed,
    Forbidden,
    Invalid,
    Published,
    RateLimited,
    TooLarge,
    Unauthorized,
)
from webhookhub.db import clock

Connect = Callable[..., Client]


@pytest.fixture
def connect(committed: None, live_server: LiveServer) -> Iterator[Connect]:
    limits._buckets.clear()
    opened: list[Client] = []

    def make(*scopes: str, key: str = "", deadline: float = 10.0) -> Client:
        text = key or keys.create(f"key {len(opened)}", scopes or (EVENTS_WRITE,), by="tests", source="shop")[1]
        opened.append(Client(live_server.url, text, deadline=deadline))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


def test_an_event_is_stored_once_however_often_it_is_sent(connect: Connect):
    producer = connect()
    first = producer.publish("order.created", {"order": 1}, external_id="o-1", correlation_id="c-1")
    second = producer.publish("order.created", {"order": 1}, external_id="o-1")

    assert (first.created, second.created, first.uid) == (True, False, second.uid)
    event = StoredEvent.objects.get()
    assert (str(event.uid), event.source, event.external_id, event.correlation_id) == (first.uid, "shop", "o-1", "c-1")
    assert first.correlation_id == "c-1"


def test_each_refusal_raises_its_own_error(connect: Connect):
    producer = connect()
    stored = producer.publish("order.created", {"order": 1}, external_id="o-1")
    with pytest.raises(Conflict) as conflict:
        producer.publish("order.created", {"order": 2}, external_id="o-1")
    assert conflict.value.uid == stored.uid
    with pytest.raises(Invalid) as invalid:
        producer.publish("not a type!", {})
    assert [error.field for error in invalid.value.errors] == ["event_type"]
    with pytest.raises(TooLarge):
        producer.publish("order.created", "x" * 300_000)
    with pytest.raises(Forbidden):
        producer.publish("saga.completed", {})
    with pytest.raises(Forbidden):
        connect(READ).publish("order.created", {})
    with pytest.raises(Unauthorized):
        connect(key="whk_unknown_key").publish("order.created", {})
    assert StoredEvent.objects.count() == 1


def test_a_batch_has_a_result_for_each(connect: Connect):
    events = [
        Event("order.created", {"order": 1}, external_id="o-1"),
        Event("order.created", {"order": 2}, external_id="o-1"),
        Event("bad type", {}),
        Event("order.created", {"order": 1}, external_id="o-1"),
        Event("saga.ended", {}),
        Event("order.created", {"order": 3}),
    ]
    results = connect().publish_many(events)
    kinds = [type(result.error if isinstance(result, Failed) else result) for result in results]
    assert kinds == [Published, Conflict, Invalid, Published, Forbidden, Published]
    assert [result.created for result in results if isinstance(result, Published)] == [True, False, True]
    # The same errors as for an event sent alone, without its position in the batch.
    errors = [result.error for result in results if isinstance(result, Failed)]
    assert [[field.field for field in error.errors] for error in errors] == [
        ["external_id"],
        ["event_type"],
        ["event_type"],
    ]
    assert not any("events[" in str(error) for error in errors)
    assert StoredEvent.objects.count() == 2
    assert {result.external_id for result in results if isinstance(result, Published)} == set(
        StoredEvent.objects.values_list("external_id", flat=True)
    )


def test_more_than_a_batch_is_stored(connect: Connect, hub_settings):
    hub_settings(api_events_per_second=100_000)
    results = connect().publish_many(Event("order.created", {"n": n}) for n in range(1001))
    assert all(isinstance(result, Published) for result in results)
    assert StoredEvent.objects.count() == 1001


def test_a_rate_limited_producer_waits_or_gets_an_error(connect: Connect, hub_settings):
    hub_settings(api_events_per_second=1)
    producer = connect(deadline=0.9)

    def go_on() -> None:
        for number in range(200):
            producer.publish("order.created", {"n": number})

    with pytest.raises(RateLimited) as caught:
        go_on()
    assert caught.value.status == 429
    assert (caught.value.retry_after or 0) > 0


def waiting(count: int) -> tuple[int, list[int]]:
    """A subscription and its deliveries, which are due in an hour."""
    subscription = SubscriptionFactory.create()
    later = clock.now() + timedelta(hours=1)
    sagas = [
        SagaFactory.create(event=EventFactory(), subscription=subscription, next_attempt_at=later) for _ in range(count)
    ]
    return subscription.id, [saga.id for saga in sagas]


def make_key(*scopes: str) -> str:
    return keys.create(f"staff {'-'.join(scopes)}", scopes, by="tests")[1]


def test_deliveries_are_sent_now_abandoned_and_sent_again(connect: Connect):
    subscription, ids = waiting(4)
    staff = connect(key=make_key(READ, DELIVERIES_SEND, DELIVERIES_ABANDON, REQUEUE)).deliveries

    made = [staff.send_now(ids[0], "customer waits"), staff.abandon(ids[1], "obsolete")]
    assert [(request.kind, request.changed, request.applied) for request in made] == [
        ("send_now", 0, False),
        ("abandon", 0, False),
    ]
    while apply_requests(100):
        pass
    assert [(staff.find(request.uid).changed, staff.find(request.uid).applied) for request in made] == [(1, True)] * 2
    assert Saga.objects.get(id=ids[0]).next_attempt_at <= clock.now()
    assert (Saga.objects.get(id=ids[1]).status, Saga.objects.get(id=ids[1]).final_error_code) == (
        "DeadLettered",
        "abandoned",
    )

    again = staff.send_again(ids[1], "a mistake")
    all_now = staff.send_all_now(subscription, "the endpoint is back")
    while apply_requests(100):
        pass
    new = staff.find(again.uid).new_delivery
    assert new is not None
    assert Saga.objects.get(id=new).generation == 1
    assert staff.find(all_now.uid).changed == 2

    abandoned = [staff.abandon_matching({"status": "Pending"}, "test data"), staff.abandon_all(subscription, "all")]
    while apply_requests(100):
        pass
    assert [staff.find(request.uid).changed for request in abandoned] == [4, 0]
    assert set(Saga.objects.values_list("status", flat=True)) == {"DeadLettered"}


def test_a_repeated_call_makes_one_request(connect: Connect):
    _, [delivery] = waiting(1)
    staff = connect(key=make_key(DELIVERIES_SEND)).deliveries
    first, second = (staff.send_now(delivery, "why", idempotency_key="ticket 7") for _ in range(2))
    assert first.uid == second.uid
    assert staff.send_now(delivery, "why").uid != first.uid
    assert DeliveryRequest.objects.count() == 2


def test_a_request_that_is_not_possible_raises(connect: Connect):
    _, [delivery] = waiting(1)
    staff = connect(key=make_key(DELIVERIES_SEND, DELIVERIES_ABANDON)).deliveries
    with pytest.raises(Conflict):
        staff.send_again(delivery, "it has not ended")
    with pytest.raises(Invalid):
        staff.abandon_matching({}, "no condition")
    with pytest.raises(Forbidden):
        connect(EVENTS_WRITE).deliveries.send_now(delivery, "why")
    assert not DeliveryRequest.objects.exists()
