"""Labels of events: given by the producer or taken from the payload, stored, and compared when an event is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client

from events import catalogue, declarations, labels
from events.catalogue import Declaration
from events.errors import EventConflict, InvalidEvent
from events.intake import NewEvent, publish, publish_many
from events.models import Event, RoutingInbox
from events.pointers import Pointer
from tests.support import rows

pytestmark = pytest.mark.django_db

POINTERS = {"region": "/order/region", "first": "/lines/0/sku", "total": "/total", "paid": "/paid", "a": "/a~1b"}
PAYLOAD = {"order": {"region": "eu"}, "lines": [{"sku": "X-1"}], "total": 12.5, "paid": True, "a/b": 7}


def stored() -> dict[str, str]:
    return dict(labels.decode(Event.objects.latest("id").labels))


def declare(**pointers: str) -> None:
    catalogue.declare("order.created", Declaration(label_pointers=pointers))
    declarations.clear()


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("eu", {"x": "eu"}),
        ("", {"x": ""}),
        (True, {"x": "true"}),
        (False, {"x": "false"}),
        (12, {"x": "12"}),
        (-1.5, {"x": "-1.5"}),
        ("x" * 256, {"x": "x" * 256}),
        ("x" * 257, {}),
        ("a\nb", {}),
        (None, {}),
        ({}, {}),
        (["a"], {}),
    ],
)
def test_a_value_of_the_payload_as_a_label(value: Any, label: dict[str, str]):
    assert labels.from_payload([("x", Pointer.parse("/v"))], {"v": value}) == label


@pytest.mark.parametrize("pointer", ["/nothing", "/v/0", "/list/2", "/list/01", "/list/-", "/list/x"])
def test_a_missing_place_gives_no_label(pointer: str):
    assert labels.from_payload([("x", Pointer.parse(pointer))], {"v": "a", "list": ["a", "b"]}) == {}


def test_labels_are_taken_from_the_payload_and_given_ones_win():
    declare(**POINTERS)
    publish("order.created", PAYLOAD, labels={"paid": "perhaps", "tier": "gold"})
    assert stored() == {
        "region": "eu",
        "first": "X-1",
        "total": "12.5",
        "paid": "perhaps",
        "a": "7",
        "tier": "gold",
    }
    assert RoutingInbox.objects.get().labels == Event.objects.get().labels


def test_an_event_without_labels_stores_none():
    declare(region="/order/region")
    publish("order.created", {})
    publish("other", {}, labels={})
    assert set(Event.objects.values_list("labels", flat=True)) == {None}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("x", "labels"),
        (["a"], "labels"),
        ({"Region": "eu"}, "labels"),
        ({"": "eu"}, "labels"),
        ({"x" * 65: "eu"}, "labels"),
        ({"region": 1}, "labels.region"),
        ({"region": None}, "labels.region"),
        ({"region": "x" * 257}, "labels.region"),
        ({"region": "a\0b"}, "labels.region"),
        ({"region": "\ud800"}, "labels.region"),
        ({f"l{n}": "x" for n in range(17)}, "labels"),
    ],
)
def test_an_invalid_label_is_refused(given: Any, field: str):
    with pytest.raises(InvalidEvent) as refused:
        publish("order.created", {}, labels=given)
    assert refused.value.field == field
    assert not Event.objects.exists()


def test_given_and_declared_labels_together_are_at_most_sixteen():
    declare(region="/order/region")
    given = {f"l{n}": "x" for n in range(16)}
    publish("order.created", {}, labels=given)
    with pytest.raises(InvalidEvent, match="17 labels"):
        publish("order.created", PAYLOAD, labels=given)


def test_a_repeat_with_other_labels_is_a_conflict():
    def send(given: Any) -> Any:
        return publish_many([NewEvent("order.created", {}, external_id="1", labels=given)])[0]

    assert send({"a": "1", "b": "2"}).created
    assert not send({"b": "2", "a": "1"}).created
    for other in ({"a": "1"}, {"a": "1", "b": "3"}, {"a": "1", "b": "2", "c": "3"}, None):
        assert isinstance(send(other), EventConflict), other


def test_a_repeat_is_recognised_although_the_pointers_have_changed_since():
    publish("order.created", PAYLOAD, external_id="1")
    declare(region="/order/region")
    assert not publish("order.created", PAYLOAD, external_id="1").created
    publish("order.created", PAYLOAD, external_id="2")
    declare(region="/nothing")
    assert not publish("order.created", PAYLOAD, external_id="2").created


def test_labels_cannot_be_changed():
    publish("order.created", {}, labels={"region": "eu"})
    for value in ("NULL", "'{}'"):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"UPDATE events SET labels = {value}")
    assert stored() == {"region": "eu"}


def test_a_stored_text_that_is_no_set_of_labels_has_none():
    for text in (None, "", "{", "[]", "7", '"a"', "[" * 100_000):
        assert labels.decode(text) == {}
    assert labels.decode('{"a": "1", "b": 2, "c": {}}') == {"a": "1"}


def test_the_command_and_the_page(superuser: Client):
    call_command("publish_event", "order.created", "{}", "--label", "region=eu", "--label", "q=a=b", stdout=StringIO())
    assert stored() == {"region": "eu", "q": "a=b"}
    for wrong in (["--label", "region"], ["--label", "a=1", "--label", "a=2"]):
        with pytest.raises(CommandError, match="NAME=VALUE"):
            call_command("publish_event", "order.created", "{}", *wrong)
    page = superuser.get(rows.change("events_event", Event.objects.get().pk)).content.decode()
    assert "region: eu" in page


def test_the_api_stores_and_shows_labels(client: Client, db: None, hub_settings: Callable[..., None]):
    from api import keys

    key = keys.create("shop", ["events:write", "read"], by="tests")[1]
    headers = {"Authorization": f"Bearer {key}"}

    def post(text: str) -> Any:
        return client.post("/api/v1/events", text, content_type="application/json", headers=headers)

    response = post('{"event_type": "order.created", "payload": {}, "labels": {"region": "eu"}}')
    assert response.status_code == 201
    shown = client.get(f"/api/v1/events/{response.json()['uid']}", headers=headers).json()
    assert shown["labels"] == {"region": "eu"}
    for given, field in (
        ('{"region": 1}', "labels.region"),
        ('{"a": "1", "a": "2"}', "labels"),
        ('{"a": "\\ud800"}', "labels.a"),
        ('{"a": "\\u0000"}', "labels.a"),
        ('{"a": NaN}', "labels.a"),
        ("[]", "labels"),
    ):
        response = post(f'{{"event_type": "order.created", "payload": {{}}, "labels": {given}}}')
        assert response.status_code == 422, given
        assert json.loads(response.content)["errors"][0]["field"] == field
    assert Event.objects.count() == 1
