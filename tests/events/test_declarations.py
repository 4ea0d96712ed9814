"""Ingest checks payloads against declared event types, by a cache that is never older than a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events import catalogue, declarations, payloads
from events.catalogue import Declaration
from events.errors import InvalidEvent
from events.intake import NewEvent, Published, publish, publish_many
from events.models import Event, EventType

pytestmark = pytest.mark.django_db

SCHEMA = {"type": "object", "required": ["id"], "properties": {"lines": {"items": {"type": "integer"}}}}
STRICT = Declaration(json_schema=SCHEMA, strict=True)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have passed."""
    now = [1000.0]
    monkeypatch.setattr("events.declarations.time.monotonic", lambda: now[0])
    return now


def refusal(event_type: str, payload: Any) -> str:
    with pytest.raises(InvalidEvent) as refused:
        publish(event_type, payload)
    return str(refused.value)


def test_a_strict_type_refuses_a_payload_and_names_the_place():
    catalogue.declare("order.created", STRICT)
    publish("order.created", {"id": 1, "lines": [1]})
    error = refusal("order.created", {"id": 1, "lines": [1, "x"]})
    assert error == 'payload breaks the schema of order.created: at /lines/1: "x" is not of type "integer"'
    assert "at its top level" in refusal("order.created", {})
    assert "at its top level" in refusal("order.created", payloads.read("[]"))
    assert Event.objects.count() == 1


def test_without_strict_a_schema_only_documents():
    catalogue.declare("order.created", Declaration(json_schema=SCHEMA))
    publish("order.created", 7)
    publish("another", 7)


def test_a_strict_hub_checks_every_schema_and_refuses_undeclared_types(hub_settings: Callable[..., None]):
    catalogue.declare("order.created", Declaration(json_schema=SCHEMA))
    hub_settings(strict_event_types=True)
    assert "breaks the schema" in refusal("order.created", 7)
    assert refusal("order.creatd", {"id": 1}) == "event_type order.creatd is not declared; did you mean order.created?"
    assert refusal("x", {}) == "event_type x is not declared; declare it first"
    publish("order.created", {"id": 1})


def test_the_hubs_own_events_need_no_declaration(hub_settings: Callable[..., None]):
    hub_settings(strict_event_types=True)
    [result] = publish_many([NewEvent("hub.endpoint.failing", {}, source="hub")], by_hub=True)
    assert isinstance(result, Published)


def test_each_event_of_a_batch_is_judged_by_itself():
    catalogue.declare("order.created", STRICT)
    results = publish_many([NewEvent("order.created", {"id": 1}), NewEvent("order.created", {}), NewEvent("b", 1)])
    assert [isinstance(result, Published) for result in results] == [True, False, True]


def test_a_repeat_of_an_event_that_breaks_a_later_schema_is_refused_and_the_stored_one_stays():
    publish("order.created", {}, external_id="1")
    catalogue.declare("order.created", STRICT)
    declarations.clear()
    with pytest.raises(InvalidEvent):
        publish("order.created", {}, external_id="1")
    assert Event.objects.count() == 1


def test_a_change_has_effect_within_a_second(clock: list[float]):
    publish("order.created", {})
    catalogue.declare("order.created", STRICT)
    clock[0] += 0.99
    refusal("order.created", {})
    catalogue.declare("order.created", Declaration())
    clock[0] += 0.99
    publish("order.created", {})
    catalogue.declare("order.created", STRICT)
    clock[0] += 0.99
    refusal("order.created", {})
    catalogue.delete("order.created")
    clock[0] += 0.99
    publish("order.created", {})


def test_declarations_are_read_only_when_they_have_changed(clock: list[float]):
    catalogue.declare("order.created", STRICT)

    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            declarations.find("order.created")
        return [query["sql"] for query in queries]

    assert len(statements()) == 3
    assert statements() == []
    clock[0] += 1
    assert len(statements()) == 1


def test_an_unchanged_schema_is_not_compiled_again(clock: list[float]):
    catalogue.declare("order.created", STRICT)
    refusal("order.created", {})
    before = declarations.find("order.created")
    assert before is not None
    catalogue.declare("another", Declaration())
    clock[0] += 1
    after = declarations.find("order.created")
    assert after is not None
    assert after is not before
    assert after._validator is before._validator


@pytest.mark.parametrize("declaration", [None, Declaration(), STRICT, Declaration(label_pointers={"id": "/id"})])
def test_a_payload_is_not_decoded_again(declaration: Declaration | None, monkeypatch: pytest.MonkeyPatch):
    """The reader of requests hands on the value that it has decoded."""
    if declaration:
        catalogue.declare("order.created", declaration)
        publish("order.created", {"id": 1})
    document = payloads.Document('{"id":1}', {"id": 1})

    def refuse(*args: Any) -> None:
        raise AssertionError("decoded again")

    with monkeypatch.context() as patched:
        patched.setattr("events.payloads.json.loads", refuse)
        publish("order.created", document)


def test_a_stored_schema_that_is_invalid_refuses_the_events_of_its_type():
    EventType.objects.create(name="broken", json_schema='{"type": "x"}', strict=True)
    assert "the stored schema is invalid" in refusal("broken", {})
    publish("fine", {})
