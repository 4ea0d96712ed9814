"""The catalogue as the `webhooks` of an OpenAPI 3.1 document, and such a document as declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webhookhub import __version__

from .catalogue import Declaration, InvalidEventType, Saved, declare_all
from .models import EventType

MAX_BYTES = 8 * 1024 * 1024
VERSION = "3.1.0"
EXTENSION = "x-webhookhub"
MEDIA_TYPE = "application/json"
COMPONENTS = "#/components/schemas/"
DEFINITIONS = "#/$defs/"
# The members of the body that the hub sends; `data` is the payload.
ENVELOPE = {"type", "timestamp", "data"}
# The id of an embedded schema, so that its references stay within it.
SCHEMA_ID = "urn:webhookhub:event-type:"


class InvalidDocument(ValueError):
    """The message says where and why."""


def export(rows: Iterable[EventType]) -> dict[str, Any]:
    return {
        "openapi": VERSION,
        "info": {"title": "Webhooks", "version": __version__},
        "webhooks": {row.name: {"post": _operation(row.name, Declaration.of(row))} for row in rows},
    }


def read(document: Any, stored: Mapping[str, Declaration]) -> dict[str, Declaration]:
    """The declarations of the document's webhooks, by name. What it does not say stays as it is `stored`.

    Raises InvalidDocument.
    """
    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3.1"):
        raise InvalidDocument("the document must be OpenAPI 3.1, in JSON")
    webhooks = document.get("webhooks")
    if not isinstance(webhooks, dict) or not webhooks:
        raise InvalidDocument("webhooks must be an object with at least one webhook")
    return {name: _read(document, name, item, stored.get(name, Declaration())) for name, item in webhooks.items()}


def import_document(document: Any) -> list[Saved]:
    """Declares the document's webhooks: all of them or none. Raises InvalidDocument."""
    stored = {row.name: Declaration.of(row) for row in EventType.objects.all()}
    try:
        return declare_all(read(document, stored))
    except InvalidEventType as error:
        raise InvalidDocument(f"webhooks[{error.name[:100]!r}]: {error}") from None


def _operation(name: str, declaration: Declaration) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "required": sorted(ENVELOPE),
        "properties": {
            "type": {"const": name},
            "timestamp": {"type": "string", "format": "date-time"},
            "data": _embedded(name, declaration.json_schema),
        },
    }
    content: dict[str, Any] = {"schema": schema}
    if declaration.sample is not None:
        example = {"type": name, "timestamp": "2026-01-31T12:00:00.000000Z", "data": declaration.sample}
        content["example"] = example
    operation: dict[str, Any] = {"summary": name}
    if declaration.description:
        operation["description"] = declaration.description
    if declaration.group:
        operation["tags"] = [declaration.group]
    if declaration.deprecated:
        operation["deprecated"] = True
    operation["requestBody"] = {"required": True, "content": {MEDIA_TYPE: content}}
    operation["responses"] = {"2XX": {"description": "The event was received. Any other status is retried."}}
    extension = {
        **({"strict": True} if declaration.strict else {}),
        **({"label_pointers": dict(declaration.label_pointers)} if declaration.label_pointers else {}),
        **({"deprecation_note": declaration.deprecation_note} if declaration.deprecation_note else {}),
    }
    return {**operation, **({EXTENSION: extension} if extension else {})}


def _embedded(name: str, schema: Any) -> Any:
    if schema is None:
        return {}
    return {"$id": f"{SCHEMA_ID}{name}", **schema} if isinstance(schema, dict) else schema


def _read(document: dict[str, Any], name: str, item: Any, stored: Declaration) -> Declaration:
    place = f"webhooks[{name[:100]!r}]"
    operation = _object(_object(item, place).get("post"), f"{place}.post")
    content = _object(operation.get("requestBody", {}), f"{place}.post.requestBody").get("content", {})
    media = _object(_object(content, f"{place}.post.requestBody.content").get(MEDIA_TYPE, {}), f"{place} {MEDIA_TYPE}")
    extension = _object(operation.get(EXTENSION, {}), f"{place}.post.{EXTENSION}")
    tags = operation.get("tags") or []
    summary = operation.get("summary")
    description = operation.get("description") or (summary if summary != name else "") or ""
    deprecated = operation.get("deprecated", False)
    values = {
        "description": description,
        "group": tags[0] if isinstance(tags, list) and tags else "",
        "sample": _sample(media),
        "json_schema": _schema(document, media.get("schema")),
        "label_pointers": extension.get("label_pointers", stored.label_pointers),
        "strict": extension.get("strict", stored.strict),
        "deprecated": deprecated,
        "deprecation_note": extension.get("deprecation_note", stored.deprecation_note) if deprecated else "",
    }
    _check_types(place, values)
    if values["json_schema"] is None:
        values["strict"] = False
    return Declaration(**values)


def _check_types(place: str, values: Mapping[str, Any]) -> None:
    for name, kind in (("description", str), ("group", str), ("deprecation_note", str), ("strict", bool)):
        if not isinstance(values[name], kind):
            raise InvalidDocument(f"{place}: {name} must be a {'text' if kind is str else 'boolean'}")
    if not isinstance(values["deprecated"], bool):
        raise InvalidDocument(f"{place}: deprecated must be a boolean")
    pointers = values["label_pointers"]
    if not isinstance(pointers, Mapping) or not all(isinstance(value, str) for value in pointers.values()):
        raise InvalidDocument(f"{place}: label_pointers must map names of labels to JSON pointers")


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDocument(f"{place} must be an object")
    return value


def _sample(media: Mapping[str, Any]) -> Any:
    """The first example; only the payload if it is a whole body of the hub."""
    example = media.get("example")
    if example is None and isinstance(examples := media.get("examples"), dict):
        first = next(iter(examples.values()), None)
        example = first.get("value") if isinstance(first, dict) else None
    return example["data"] if isinstance(example, dict) and example.keys() == ENVELOPE else example


def _schema(document: dict[str, Any], schema: Any) -> Any:
    """The payload's schema, with the components that it refers to as its own definitions."""
    components = _object(_object(document.get("components", {}), "components").get("schemas", {}), "components.schemas")
    followed: set[str] = set()
    while isinstance(schema, dict) and schema.keys() == {"$ref"} and str(schema["$ref"]).startswith(COMPONENTS):
        name = schema["$ref"].removeprefix(COMPONENTS)
        if name not in components or name in followed:
            raise InvalidDocument(f"{schema['$ref']} {'refers to itself' if name in followed else 'does not exist'}")
        followed.add(name)
        schema = components[name]
    if isinstance(schema, dict) and isinstance(parts := schema.get("properties"), dict) and parts.keys() == ENVELOPE:
        schema = parts["data"]
    if schema is None or schema == {}:
        return None
    used: dict[str, Any] = {}
    own = _localised(schema, components, used)
    if isinstance(own, dict):
        if str(own.get("$id", "")).startswith(SCHEMA_ID):
            del own["$id"]
        if used:
            own["$defs"] = {**own.get("$defs", {}), **used}
        if not own:
            return None
    return own


def _localised(value: Any, components: Mapping[str, Any], used: dict[str, Any]) -> Any:
    """A copy whose references to components lead to `$defs`; adds these components to `used`."""
    if isinstance(value, list):
        return [_localised(item, components, used) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {name: _localised(item, components, used) for name, item in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith(COMPONENTS):
        path = reference.removeprefix(COMPONENTS)
        copy["$ref"] = DEFINITIONS + path
        name = path.split("/")[0].replace("~1", "/").replace("~0", "~")
        if name not in components:
            raise InvalidDocument(f"{reference} does not exist")
        if name not in used:
            used[name] = None  # so that a component that refers to itself ends here
            used[name] = _localised(components[name], components, used)
    return copy
