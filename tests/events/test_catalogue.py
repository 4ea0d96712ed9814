"""The catalogue of event types: declarations, types that nobody declared, OpenAPI documents."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from events import catalogue, openapi
from events.catalogue import Declaration, InvalidEventType
from events.intake import publish
from events.models import EventType, EventTypeVersion
from webhookhub.auditlog.models import Entry

pytestmark = pytest.mark.django_db

WHOLE = Declaration(
    description="An order was placed.",
    group="Orders",
    sample={"id": 1, "region": "eu"},
    json_schema={
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"$ref": "#/$defs/id"}},
        "$defs": {"id": {"type": "integer"}},
    },
    label_pointers={"region": "/region"},
    strict=True,
    deprecated=True,
    deprecation_note="Use order.created.v2.",
)


def version() -> int:
    return EventTypeVersion.objects.values_list("version", flat=True).first() or 0


def test_a_declaration_is_stored_once_and_replaced():
    first = catalogue.declare("order.created", WHOLE)
    assert first.created
    assert Declaration.of(EventType.objects.get()) == WHOLE
    deprecated_at, raised = first.event_type.deprecated_at, version()

    again = catalogue.declare("order.created", WHOLE)
    assert not again.created
    assert again.event_type.deprecated_at == deprecated_at
    assert version() == raised, "nothing is written"
    assert Entry.objects.count() == 1

    catalogue.declare("order.created", Declaration(description="Other."))
    row = EventType.objects.get()
    assert Declaration.of(row) == Declaration(description="Other.")
    assert row.deprecated_at is None
    assert version() > raised
    assert json.loads(Entry.objects.latest("id").details)["json_schema"] == {"from": True, "to": False}


def test_a_change_from_1_to_true_is_a_change():
    catalogue.declare("a", Declaration(json_schema={"const": 1}))
    catalogue.declare("a", Declaration(json_schema={"const": True}))
    assert Declaration.of(EventType.objects.get()).json_schema["const"] is True


def test_a_deleted_declaration_raises_the_version():
    catalogue.declare("order.created", WHOLE)
    before = version()
    assert catalogue.delete("order.created")
    assert version() > before
    assert not catalogue.delete("order.created")


@pytest.mark.parametrize(
    ("name", "values", "field"),
    [
        ("a b", {}, "name"),
        ("hub.endpoint", {}, "name"),
        ("a", {"strict": True}, "strict"),
        ("a", {"json_schema": {"type": "x"}}, "json_schema"),
        ("a", {"json_schema": {"type": "string"}, "sample": 1}, "sample"),
        ("a", {"sample": float("nan")}, "sample"),
        ("a", {"sample": "x" * 70_000}, "sample"),
        ("a", {"label_pointers": {"Region": "/a"}}, "label_pointers"),
        ("a", {"label_pointers": {"region": "a"}}, "label_pointers"),
        ("a", {"label_pointers": {"region": "/a~2"}}, "label_pointers"),
        ("a", {"label_pointers": {f"l{n}": "/a" for n in range(17)}}, "label_pointers"),
        ("a", {"deprecation_note": "x"}, "deprecation_note"),
        ("a", {"description": "\x1b[2J"}, "description"),
        ("a", {"group": "x" * 101}, "group"),
    ],
)
def test_an_invalid_declaration_names_its_field(name: str, values: dict[str, Any], field: str):
    with pytest.raises(InvalidEventType) as refused:
        catalogue.declare(name, Declaration(**values))
    assert list(refused.value.errors) == [field]
    assert not EventType.objects.exists()


def test_types_of_stored_events_that_are_not_declared():
    for name in ("b.x", "a.x", "B.x", "a.x", "z"):
        publish(name, {})
    catalogue.declare("z", Declaration())
    seen, more = catalogue.undeclared()
    assert [item.name for item in seen] == ["B.x", "a.x", "b.x"]
    assert seen[0].last_at
    assert not more


def test_the_number_of_examined_types_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catalogue, "MAX_SEEN", 2)
    for name in ("a", "b", "c"):
        publish(name, {})
    seen, more = catalogue.undeclared()
    assert [item.name for item in seen] == ["a", "b"]
    assert more


def test_an_exported_catalogue_is_imported_unchanged():
    catalogue.declare("order.created", WHOLE)
    catalogue.declare("order.shipped", Declaration(json_schema=True))
    catalogue.declare("plain", Declaration())
    document = json.loads(json.dumps(openapi.export(EventType.objects.all())))
    before = {row.name: Declaration.of(row) for row in EventType.objects.all()}
    for name in before:
        catalogue.delete(name)
    assert all(saved.created for saved in openapi.import_document(document))
    assert {row.name: Declaration.of(row) for row in EventType.objects.all()} == before


def test_the_components_of_another_document_become_definitions():
    money = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    order = {"type": "object", "properties": {"total": {"$ref": "#/components/schemas/Money"}}}
    document = {
        "openapi": "3.1.1",
        "components": {"schemas": {"Money": money, "Order": order, "Unused": {}}},
        "webhooks": {
            "order.created": {
                "post": {
                    "summary": "An order",
                    "tags": ["Orders", "Other"],
                    "requestBody": {
                        "content": {
                            "application/json": {
                                "schema": {"$ref": "#/components/schemas/Order"},
                                "examples": {"one": {"value": {"total": {"amount": 1}}}},
                            }
                        }
                    },
                }
            }
        },
    }
    openapi.import_document(document)
    declared = Declaration.of(EventType.objects.get())
    assert declared.description == "An order"
    assert declared.group == "Orders"
    assert declared.sample == {"total": {"amount": 1}}
    assert declared.json_schema == {
        "type": "object",
        "properties": {"total": {"$ref": "#/$defs/Money"}},
        "$defs": {"Money": money},
    }


def test_an_import_keeps_what_the_document_does_not_say():
    catalogue.declare("a", Declaration(label_pointers={"region": "/region"}))
    openapi.import_document({"openapi": "3.1.0", "webhooks": {"a": {"post": {"description": "A"}}}})
    assert Declaration.of(EventType.objects.get()) == Declaration(description="A", label_pointers={"region": "/region"})


def media(schema: Any) -> dict[str, Any]:
    return {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ([], "OpenAPI 3.1"),
        ({"openapi": "3.0.3", "webhooks": {"a": {"post": {}}}}, "OpenAPI 3.1"),
        ({"openapi": "3.1.0"}, "webhooks"),
        ({"openapi": "3.1.0", "webhooks": {"a": {"get": {}}}}, "webhooks['a'].post"),
        ({"openapi": "3.1.0", "webhooks": {"a": media({"type": "x"})}}, "webhooks['a']: json_schema"),
        ({"openapi": "3.1.0", "webhooks": {"a": media({"$ref": "#/components/schemas/B"})}}, "does not exist"),
        ({"openapi": "3.1.0", "webhooks": {"a": {"post": {"deprecated": "yes"}}}}, "deprecated"),
        ({"openapi": "3.1.0", "webhooks": {"a": {"post": {"description": 1}}}}, "description"),
        (
            {
                "openapi": "3.1.0",
                "components": {
                    "schemas": {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
                },
                "webhooks": {"a": media({"$ref": "#/components/schemas/A"})},
            },
            "refers to itself",
        ),
    ],
)
def test_an_invalid_document_stores_nothing(document: Any, error: str):
    if isinstance(document, dict) and isinstance(document.get("webhooks"), dict):
        document = {**document, "webhooks": {"0.valid": {"post": {}}, **document["webhooks"]}}
    with pytest.raises(openapi.InvalidDocument) as refused:
        openapi.import_document(document)
    assert error in str(refused.value)
    assert not EventType.objects.exists()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("event_types", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_lists_imports_and_exports(tmp_path: Path):
    catalogue.declare("order.created", WHOLE)
    publish("order.creatd", {})
    assert run("list") == "order.created  strict  deprecated\n"
    assert "order.creatd  last event" in run("undeclared")
    file = tmp_path / "catalogue.json"
    file.write_text(run("export"))
    catalogue.delete("order.created")
    assert run("import", str(file)) == "1 event types declared, 1 of them new.\n"
    assert json.loads(run("import", str(file), "--json")) == {"created": [], "existing": ["order.created"]}
    file.write_text("{")
    with pytest.raises(CommandError, match="Nothing was stored: is not JSON"):
        run("import", str(file))
