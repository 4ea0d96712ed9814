"""The event API: send one event, send a batch, show an event."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from events.models import Event, RoutingInbox
from events.payloads import MAX_BYTES
from tests.factories import SagaFactory, SubscriptionFactory
from webhookhub.db import vendors

from .conftest import Program

pytestmark = pytest.mark.django_db


def event(**more: Any) -> dict[str, Any]:
    return {"event_type": "order.created", "payload": {"n": 1}} | more


def fields(response: Any) -> list[str]:
    return [error["field"] for error in response.json()["errors"]]


def nothing_stored() -> bool:
    return not Event.objects.exists() and not RoutingInbox.objects.exists()


def test_an_event_is_stored_once_with_the_keys_source(shop: Program):
    first = shop.post("/events", event(external_id="o-1", correlation_id="case 7"))
    again = shop.post("/events", event(external_id="o-1"))

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() | {"created": True}
    assert first["Location"] == f"/api/v1/events/{first.json()['uid']}"
    stored = Event.objects.get()
    assert (stored.source, stored.external_id, stored.correlation_id) == ("shop", "o-1", "case 7")
    assert RoutingInbox.objects.get().event_id == stored.id


def test_a_key_without_a_source_sends_with_its_name_as_source(hub_wide: Program):
    hub_wide.post("/events", event())

    assert Event.objects.get().source == "everything"


def test_a_repeated_id_with_another_payload_or_type_is_a_conflict_that_names_the_first_event(shop: Program):
    uid = shop.post("/events", event(external_id="o-1")).json()["uid"]

    for other in (event(external_id="o-1", payload={"n": 2}), event(external_id="o-1", event_type="order.paid")):
        response = shop.post("/events", other)
        assert response.status_code == 409
        assert response.json()["uid"] == uid
        assert fields(response) == ["external_id"]
    assert Event.objects.count() == 1


def test_the_idempotency_key_is_the_external_id(shop: Program):
    first = shop.post("/events", event(), Idempotency_Key="o-1")
    by_body = shop.post("/events", event(external_id="o-1"))
    both = shop.post("/events", event(external_id="o-1"), Idempotency_Key="o-1")
    differing = shop.post("/events", event(external_id="o-2"), Idempotency_Key="o-1")

    assert [response.status_code for response in (first, by_body, both, differing)] == [201, 200, 200, 422]
    assert fields(differing) == ["external_id"]
    assert Event.objects.get().external_id == "o-1"


def test_an_idempotency_key_for_a_batch_is_refused(shop: Program):
    response = shop.post("/events/batch", {"events": [event()]}, Idempotency_Key="o-1")

    assert response.status_code == 422
    assert fields(response) == ["Idempotency-Key"]
    assert "give each event an external_id" in response.json()["detail"]
    assert nothing_stored()


@pytest.mark.parametrize("header", ["é", "x" * 201, " "])
def test_an_invalid_idempotency_key_is_refused(shop: Program, header: str):
    response = shop.post("/events", event(), Idempotency_Key=header)
    assert response.status_code == 422
    assert fields(response) == ["Idempotency-Key"]
    assert nothing_stored()


PAYLOADS = [
    '{"b": 1.10,  "a":[1E2, -0, 0.0]}',
    '"\\u00e9\\/ é \\ud83d\\ude00"',
    "[ ]",
    "  null ",
    '{"payload": {"payload": "}"}, "x": "\\"]"}',
    "18446744073709551615",
    '{"b":1,\n\t"a":2}',
]


def check_stored(stored: str, payload: str) -> None:
    if vendors.is_server(connection) and not vendors.is_mariadb(connection):
        # MySQL stores documents in its own form: only the document is the same.
        assert json.loads(stored) == json.loads(payload)
    else:
        assert stored == payload.strip()


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_is_stored_exactly_as_written(shop: Program, payload: str):
    body = f'{{"event_type":"a.b","payload":{payload} , "external_id":"x"}}'.encode()

    responses = [shop.send("POST", "/events", body) for _ in range(2)]

    assert [response.status_code for response in responses] == [201, 200]
    check_stored(Event.objects.get().payload, payload)


def test_the_payloads_of_a_batch_are_stored_exactly_as_written(shop: Program):
    events = " , ".join(f'{{"event_type":"a.b","payload":{payload} }}' for payload in PAYLOADS)

    assert shop.send("POST", "/events/batch", f'{{"events": [ {events} ] }}'.encode()).status_code == 200

    for stored, payload in zip(Event.objects.order_by("id"), PAYLOADS, strict=True):
        check_stored(stored.payload, payload)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "event"),
        (b"{}", "event_type"),
        (b'{"event_type":"a"}', "payload"),
        (b'{"event_type":"a","payload":1} x', "body"),
        (b'{"event_type":"a","payload":1,"payload":2}', "payload"),
        (b'{"event_type":"a","payload":1,"eventType":2}', "event"),
        (b'{"event_type":"a b","payload":1}', "event_type"),
        (b'{"event_type":"a","payload":NaN}', "payload"),
        (b'{"event_type":"a","payload":{"x":1,"x":1}}', "payload"),
        (b'{"event_type":"a","payload":' + b"9" * 10_000 + b"}", "payload"),
        (b'{"event_type":"a","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
        (b'{"event_type":"a","payload":' + b"[" * 100_000, "body"),
        (b'{"event_type":"a","payload":"\xff"}', "body"),
        (b"\xef\xbb\xbf{}", "body"),
        (b'{"event_type":"a","payload":1,"external_id":NaN}', "external_id"),
        (b'{"event_type":"a","payload":1,"external_id":"\\ud800"}', "external_id"),
        (b'{"event_type":"a","payload":1,"correlation_id":"\\n"}', "correlation_id"),
        (b'{"event_type":"a","payload":1,"correlation_id":Infinity}', "correlation_id"),
    ],
)
def test_an_invalid_field_is_named_and_nothing_is_stored(shop: Program, body: bytes, field: str):
    response = shop.send("POST", "/events", body)

    assert response.status_code == 422, response.content
    assert fields(response) == [field]
    assert nothing_stored()


def test_an_object_key_of_maximum_length_is_stored_and_a_longer_one_refuses_only_its_event(shop: Program):
    response = shop.post("/events/batch", {"events": [event(payload={"k" * (65_534 + n): n}) for n in range(3)]})

    assert [result["status"] for result in response.json()["results"]] == [201, 201, 422]
    assert [list(json.loads(stored.payload).values()) for stored in Event.objects.order_by("id")] == [[0], [1]]


def test_reserved_event_types_are_forbidden(shop: Program, hub_wide: Program):
    for sender in (shop, hub_wide):
        response = sender.post("/events", event(event_type="saga.completed"))
        assert response.status_code == 403
        assert fields(response) == ["event_type"]
    assert nothing_stored()


def test_a_payload_of_the_maximum_size_is_accepted_and_one_byte_more_is_too_large(shop: Program):
    text = "x" * (MAX_BYTES - 2)

    assert shop.post("/events", event(payload=text)).status_code == 201
    response = shop.post("/events", event(payload=text + "x"))
    assert response.status_code == 413
    assert fields(response) == ["payload"]
    assert Event.objects.count() == 1


def test_a_body_with_a_too_large_content_length_is_not_read(shop: Program):
    response = shop.send("POST", "/events", b" " * (MAX_BYTES + 40 * 1024 + 1))

    assert response.status_code == 413
    assert fields(response) == ["body"]


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "application/json; charset=latin-1", "application/jsonx", ""],
)
def test_a_content_type_other_than_json_is_refused(shop: Program, content_type: str):
    response = shop.send("POST", "/events", json.dumps(event()).encode(), content_type)

    assert response.status_code == 415
    assert "Content-Type: application/json" in response.json()["detail"]
    assert nothing_stored()


@pytest.mark.parametrize(("encoding", "compressed"), [("gzip", True), ("gzip", False), ("identity, gzip", True)])
def test_an_encoded_body_is_refused(shop: Program, encoding: str, compressed: bool):
    body = json.dumps(event()).encode()

    response = shop.send("POST", "/events", gzip.compress(body) if compressed else body, Content_Encoding=encoding)

    assert response.status_code == 415
    assert "Content-Encoding" in response.json()["detail"]
    assert "unencoded" in response.json()["detail"]
    assert response["Accept-Encoding"] == "identity"
    assert nothing_stored()


@pytest.mark.parametrize("encoding", ["Identity", ""])
def test_a_body_with_identity_encoding_is_accepted(shop: Program, encoding: str):
    assert shop.send("POST", "/events", json.dumps(event()).encode(), Content_Encoding=encoding).status_code == 201


def test_a_batch_returns_a_result_per_event_and_stores_the_valid_ones(shop: Program):
    shop.post("/events", event(external_id="before"))
    deep = "[" * 500 + "]" * 500
    items = [
        json.dumps(event(external_id="a")),
        json.dumps(event(external_id="before")),
        json.dumps(event(external_id="before", payload=2)),
        json.dumps(event(event_type="saga.x")),
        '{"event_type":"a","payload":{"x":1,"x":2}}',
        json.dumps(event(payload="x" * MAX_BYTES)),
        json.dumps(event(external_id="a")),
        json.dumps(event(external_id="a", payload=3)),
        "17",
        f'{{"event_type":"a","payload":{deep}}}',
        '{"event_type":"a","payload":1,"colour":2}',
        json.dumps(event()),
        json.dumps(event()),
    ]

    response = shop.send("POST", "/events/batch", f'{{"events":[{",".join(items)}]}}'.encode())

    results = response.json()["results"]
    assert [result["status"] for result in results] == [201, 200, 409, 403, 422, 413, 200, 409, 422, 422, 422, 201, 201]
    assert results[0]["uid"] == results[6]["uid"] == results[7]["problem"]["uid"]
    assert results[4]["problem"]["errors"][0]["field"] == "events[4].payload"
    assert results[9]["problem"]["errors"][0]["field"] == "events[9].payload"
    assert results[7]["problem"]["errors"][0]["field"] == "events[7].external_id"
    # An item that is not an object, or has an unknown field, has no field to name.
    assert [results[n]["problem"]["errors"][0]["field"] for n in (8, 10)] == ["events[8]", "events[10]"]
    assert results[8]["problem"]["detail"] == "events[8] must be a JSON object."
    assert Event.objects.count() == 4


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b"{}", "events"),
        (b'{"events":{}}', "events"),
        (b'{"events":[]}', "events"),
        (b'{"events":[1]', "body"),
        (b'{"events":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "body"),
        (b'{"events":[1],"more":1}', "body"),
        (b'{"events":[1],"events":[1]}', "events"),
        (b'{"events":[' + b"1," * 1000 + b"1]}", "events"),
    ],
)
def test_an_invalid_batch_is_refused_as_a_whole(shop: Program, body: bytes, field: str):
    response = shop.send("POST", "/events/batch", body)

    assert response.status_code == 422, response.content
    assert fields(response) == [field]
    assert nothing_stored()


def test_a_thousand_events_take_few_statements(shop: Program, django_assert_max_num_queries: Any):
    events = [event(external_id=str(n)) for n in range(999)] + [event()]

    # The key, its last use, its allowance twice, the version of the event types; the events in two statements, each
    # with a query.
    with django_assert_max_num_queries(15):
        response = shop.post("/events/batch", {"events": events})

    assert {result["status"] for result in response.json()["results"]} == {201}
    assert Event.objects.count() == 1000


def test_a_batch_larger_than_the_setting_is_refused(shop: Program, hub_settings: Callable[..., None]):
    hub_settings(api_batch_bytes=2000)

    assert shop.post("/events/batch", {"events": [event(payload="x" * 2000)]}).status_code == 413
    assert nothing_stored()


def test_an_event_is_shown_with_its_deliveries(shop: Program):
    uid = shop.post("/events", event(external_id="o-1")).json()["uid"]
    stored = Event.objects.get()
    sagas: list[Any] = [SagaFactory(event=stored, subscription=SubscriptionFactory()) for _ in range(3)]

    shown = shop.get(f"/events/{uid}").json()

    assert shown["payload"] == {"n": 1}
    assert (shown["source"], shown["external_id"]) == ("shop", "o-1")
    assert [delivery["id"] for delivery in shown["deliveries"]] == [saga.id for saga in reversed(sagas)]
    assert shown["deliveries_next"] is None


def test_another_producers_event_is_not_found(shop: Program, hub_wide: Program, program: Callable[..., Program]):
    uid = shop.post("/events", event()).json()["uid"]

    assert program("other", "read", source="other").get(f"/events/{uid}").status_code == 404
    assert hub_wide.get(f"/events/{uid}").status_code == 200
    assert hub_wide.get("/events/00000000-0000-7000-8000-000000000000").status_code == 404
    assert hub_wide.get("/events/nonsense").status_code == 422
