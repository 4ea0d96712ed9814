"""JSON Schemas (2020-12) of event types: checked when they are saved, compiled to validate payloads.

A schema cannot make ingest slow: its size is bounded, also after its references are followed, it does not contain
itself, its regular expressions run in linear time, and nothing is ever loaded from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError, meta

from .pointers import Missing, Pointer

MAX_BYTES = 64 * 1024
# Subschemas, each counted as often as references lead to it.
MAX_SUBSCHEMAS = 1000
MAX_REFERENCES = 50  # that lead from one to the next
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Bytes of a compiled regular expression.
REGEX_LIMIT = 256 * 1024
ERROR_LENGTH = 300
# Keywords whose value is a schema, a list of schemas, or schemas by name.
SCHEMA = (
    *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS = ("dependentSchemas", "patternProperties", "properties")
# Only references lead to these.
DEFINITIONS = ("$defs", "definitions")
NOT_SUPPORTED = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor")


class InvalidSchema(ValueError):
    """The message says where and why."""


class Validator:
    def __init__(self, schema: Any) -> None:
        self._compiled = _compiled(schema)

    def errors(self, payload: Any) -> str:
        """The first error, with its place as a JSON pointer; empty if the payload is valid."""
        if self._compiled.is_valid(payload):
            return ""
        try:
            # Not iter_errors(), which collects all errors first: a list may have thousands.
            self._compiled.validate(payload)
        except ValidationError as error:
            return _described(error)
        return ""


def check(schema: Any) -> None:
    """Raises InvalidSchema."""
    if not isinstance(schema, dict | bool):
        raise InvalidSchema("must be a JSON object")
    size = len(json.dumps(schema, ensure_ascii=False).encode())
    if size > MAX_BYTES:
        raise InvalidSchema(f"has {size} bytes; at most {MAX_BYTES} are allowed")
    if isinstance(schema, dict) and str(schema.get("$schema", DIALECT)).rstrip("#") != DIALECT:
        raise InvalidSchema(f"at /$schema: must be {DIALECT}, or left out")
    try:
        meta.validate(schema)
    except ValidationError as error:
        raise InvalidSchema(_refused(error)) from None
    _Size(schema).check()
    _compiled(schema)


# Kept for a moment: a form checks a schema and its sample, and the catalogue checks them again.
def _compiled(schema: Any) -> Any:
    return _compiled_text(json.dumps(schema))


@lru_cache(maxsize=16)
def _compiled_text(schema: str) -> Any:
    options = RegexOptions(size_limit=REGEX_LIMIT, dfa_size_limit=REGEX_LIMIT)
    try:
        return Draft202012Validator(json.loads(schema), pattern_options=options, offline=True)
    except ValidationError as error:
        raise InvalidSchema(_refused(error)) from None


def _refused(error: ValidationError) -> str:
    if 'is not a "regex"' in error.message:
        return f"{_described(error)} that runs in linear time (without look-around and back-references)"
    return _described(error)


def _described(error: ValidationError) -> str:
    """Such as: at /lines/0/quantity: "two" is not of type "integer"."""
    message = error.message
    if len(message) > ERROR_LENGTH:
        message = f"{message[:ERROR_LENGTH]}…"
    place = str(Pointer(tuple(map(str, error.instance_path))))
    return f"at {place}: {message}" if place else f"at its top level: {message}"


class _Size:
    """Counts the subschemas that a payload may have to satisfy."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._by_reference: dict[str, int] = {}
        self._open: list[str] = ["#"]

    def check(self) -> None:
        if self._count(self._root, is_root=True) > MAX_SUBSCHEMAS:
            raise InvalidSchema(
                f"has more than {MAX_SUBSCHEMAS} subschemas, each counted as often as a $ref leads to it"
            )

    def _count(self, schema: Any, *, is_root: bool = False) -> int:
        if not isinstance(schema, dict):
            return 1
        if unsupported := [name for name in NOT_SUPPORTED if name in schema]:
            raise InvalidSchema(f"uses {unsupported[0]}, which is not supported; use $ref")
        if "$id" in schema and not is_root:
            raise InvalidSchema("has an $id in a subschema, which is not supported; leave it out")
        count = 1 + sum(self._count(part) for part in _parts(schema))
        return count + self._referred(schema["$ref"]) if "$ref" in schema else count

    def _referred(self, reference: str) -> int:
        if not reference.startswith("#/"):
            raise InvalidSchema(
                f"has the $ref {reference[:100]!r}; only parts of the same schema, such as #/$defs/money, are allowed, "
                "and a schema must not contain itself"
            )
        if reference in self._open:
            raise InvalidSchema(f"contains itself by the $ref {reference[:100]!r}; a schema must not be recursive")
        if len(self._open) > MAX_REFERENCES:
            raise InvalidSchema(f"has more than {MAX_REFERENCES} references that lead from one to the next")
        if reference not in self._by_reference:
            try:
                target = Pointer.from_fragment(reference).find(self._root)
            except (ValueError, Missing):
                raise InvalidSchema(f"has the $ref {reference[:100]!r}, which leads nowhere") from None
            self._open.append(reference)
            self._by_reference[reference] = self._count(target)
            self._open.pop()
        return self._by_reference[reference]


def _parts(schema: dict[str, Any]) -> Iterator[Any]:
    for name in SCHEMA:
        if name in schema:
            yield schema[name]
    for name in LISTS:
        yield from schema.get(name, ())
    for name in MAPS:
        yield from schema.get(name, {}).values()
