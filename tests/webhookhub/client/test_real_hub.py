"""The client against the hub's own API, over a real connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytest_django.live_server_helper import LiveServer

from api import keys, limits
from api.scopes import EVENTS_WRITE, READ
from events.models import Event as StoredEvent
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
