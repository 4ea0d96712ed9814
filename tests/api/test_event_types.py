"""The catalogue of event types by the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from events import declarations
from events.intake import publish
from events.models import EventType
from webhookhub.auditlog.models import Entry

from .conftest import Program

pytestmark = pytest.mark.django_db

BODY = {
    "description": "An order was placed.",
    "group": "Orders",
    "sample": {"id": 1},
    "json_schema": {"type": "object", "required": ["id"]},
    "label_pointers": {"region": "/region"},
    "strict": True,
}


def put(program: Program, path: str, body: Any) -> Any:
    return program.send("PUT", path, json.dumps(body).encode())


def test_declare_show_list_and_delete(hub_wide: Program):
    response = put(hub_wide, "/event-types/order.created", BODY)
    assert response.status_code == 201
    stored = response.json()
    assert stored == {**stored, **BODY, "name": "order.created", "deprecated": False, "deprecated_at": None}
    assert put(hub_wide, "/event-types/order.created", BODY).status_code == 200
    assert hub_wide.get("/event-types/order.created").json() == stored
    assert Entry.objects.get(action="eventtype.declare").actor == "API key everything"

    put(hub_wide, "/event-types/undeclared", {"deprecated": True, "deprecation_note": "Gone."})
    first = hub_wide.get("/event-types", limit=1).json()
    second = hub_wide.get("/event-types", limit=1, cursor=first["next"]).json()
    assert [first["items"][0]["name"], second["items"][0]["name"]] == ["order.created", "undeclared"]
    assert hub_wide.get("/event-types", group="Orders").json()["items"] == [stored]

    assert hub_wide.send("DELETE", "/event-types/order.created", None).json() == {"deleted": True}
    assert hub_wide.send("DELETE", "/event-types/order.created", None).json() == {"deleted": False}
    assert hub_wide.get("/event-types/order.created").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"json_schema": {"type": "x"}}, "json_schema"),
        ({"json_schema": {"$ref": "https://example.com/"}}, "json_schema"),
        ({"strict": True}, "strict"),
        ({"strict": "yes"}, "strict"),
        ({"schema": {}}, "schema"),
        ({"label_pointers": {"A": "/a"}}, "label_pointers"),
    ],
)
def test_an_invalid_declaration_names_its_field(hub_wide: Program, body: Any, field: str):
    response = put(hub_wide, "/event-types/a", body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert not EventType.objects.exists()


def test_a_reserved_name_is_refused(hub_wide: Program):
    assert put(hub_wide, "/event-types/hub.x", {}).json()["errors"][0]["field"] == "name"


def test_scopes(program: Callable[..., Program], shop: Program):
    reader = program("reader", "read")
    writer = program("writer", "event-types:write")
    assert put(reader, "/event-types/a", {}).status_code == 403
    assert put(shop, "/event-types/a", {}).status_code == 403
    assert put(writer, "/event-types/a", {}).status_code == 201
    assert writer.get("/event-types/a").status_code == 403
    assert shop.get("/event-types/a").status_code == 200
    # It would show the types of other producers.
    assert shop.get("/catalogue/undeclared").status_code == 403
    assert reader.get("/catalogue/undeclared").status_code == 200


def test_undeclared_types_export_and_import(hub_wide: Program):
    publish("order.creatd", {})
    put(hub_wide, "/event-types/order.created", BODY)
    undeclared = hub_wide.get("/catalogue/undeclared").json()
    assert [item["name"] for item in undeclared["items"]] == ["order.creatd"]
    document = hub_wide.get("/catalogue/openapi").json()
    document["webhooks"]["order.shipped"] = {"post": {"description": "Shipped."}}
    response = put(hub_wide, "/catalogue/openapi", document)
    assert response.json() == {"created": ["order.shipped"], "existing": ["order.created"]}
    assert put(hub_wide, "/catalogue/openapi", {"openapi": "2.0"}).status_code == 422


def test_an_event_that_breaks_its_schema_is_a_422_that_names_the_place(hub_wide: Program, shop: Program):
    put(hub_wide, "/event-types/order.created", BODY)
    declarations.clear()
    response = shop.post("/events", {"event_type": "order.created", "payload": []})
    assert response.status_code == 422
    assert response.json()["errors"] == [
        {
            "field": "payload",
            "message": 'breaks the schema of order.created: at its top level: [] is not of type "object"',
        }
    ]
    events = [{"event_type": "order.created", "payload": payload} for payload in ({"id": 1}, {}, {"id": 2})]
    results = shop.post("/events/batch", {"events": events}).json()["results"]
    assert [result["status"] for result in results] == [201, 422, 201]
    assert results[1]["problem"]["errors"][0]["field"] == "events[1].payload"
