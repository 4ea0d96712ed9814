"""Schemas that are accepted, and those that would make ingest slow or load something."""

from __future__ import annotations

import time
from typing import Any

import pytest

from events import json_schema
from events.json_schema import InvalidSchema, Validator

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
    "$defs": {"line": {"type": "object", "properties": {"a/b": {"type": "string", "pattern": "^[A-Z]+$"}}}},
}


def chain(length: int, keyword: str) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    both = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**both, f"d{length}": {"type": "string"}}}


def line(length: int) -> dict[str, Any]:
    """Each definition refers to the next one."""
    each = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**each, f"d{length}": {"type": "string"}}}


def test_an_error_names_its_place_by_a_json_pointer():
    json_schema.check(ORDER)
    errors = Validator(ORDER).errors({"id": 1, "lines": [{}, {"a/b": "x"}]})
    assert errors.startswith("at /lines/1/a~1b: ")
    assert "id" in Validator(ORDER).errors({})
    assert Validator(ORDER).errors({"id": 1}) == ""


@pytest.mark.parametrize(
    "schema", [True, {}, {"$schema": json_schema.DIALECT}, {"properties": {"$ref": {"type": "null"}}}]
)
def test_schemas_that_are_accepted(schema: Any):
    json_schema.check(schema)


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("x", "must be a JSON object"),
        ({"type": "strin"}, "at /type"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "at /$schema: must be"),
        ({"$ref": "https://example.com/schema.json"}, "only parts of the same schema"),
        ({"$ref": "file:///etc/passwd"}, "only parts of the same schema"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"properties": {"a": {"$ref": "#"}}}, "must not contain itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}, "must not be recursive"),
        ({"properties": {"a": {"$id": "https://example.com/a"}}}, "$id in a subschema"),
        ({"$dynamicRef": "#a", "$dynamicAnchor": "a"}, "$dynamicRef"),
        ({"$schema": 7}, "at /$schema: must be"),
        ({"$ref": 7}, "at /$ref"),
        ({"properties": []}, "at /properties"),
        (line(60), "more than 50 references"),
        ({"pattern": "(?=a)b"}, "linear time"),
        ({"pattern": "(a{1000}){1000}"}, "linear time"),
        ({"description": "x" * json_schema.MAX_BYTES}, "at most"),
        (chain(12, "anyOf"), "more than 1000 subschemas"),
        (chain(40, "allOf"), "more than 1000 subschemas"),
    ],
)
def test_schemas_that_are_refused(schema: Any, error: str):
    with pytest.raises(InvalidSchema) as refused:
        json_schema.check(schema)
    assert error in str(refused.value)


def test_the_costliest_schema_and_pattern_are_quick():
    costly = chain(7, "anyOf")
    json_schema.check(costly)
    started = time.perf_counter()
    assert Validator(costly).errors(1)
    assert Validator({"pattern": "^(a+)+$"}).errors("a" * 200_000 + "b")
    many = {"items": {"anyOf": [{"type": "string"}] * 900}}
    json_schema.check(many)
    assert Validator(many).errors([1] * 60_000).startswith("at /0: ")
    assert time.perf_counter() - started < 2
