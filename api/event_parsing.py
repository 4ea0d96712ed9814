"""Reads events from a request's body and keeps each payload exactly as it was written.

The body is read leniently (numbers of any size, repeated keys). Each payload is then read strictly on its own, so an
invalid payload affects its own event and not the rest of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

# The json module's own parsers of one object and one array, which take the function that reads a value.
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from events import payloads
from events.errors import InvalidEvent
from events.intake import NewEvent

FIELDS = ("event_type", "payload", "external_id", "correlation_id")
REQUIRED = ("event_type", "payload")
# The field that an error names if it concerns the event as a whole.
EVENT = "event"
MAX_MEMBERS = 100
Read = Callable[[str, int], tuple[Any, int]]  # reads the value at a position; returns it and its end
# int() refuses numbers of thousands of digits. A constant such as NaN must not become None, which means "left out".
_values = json.JSONDecoder(parse_int=float, parse_constant=float)


class Part(NamedTuple):
    """A value and its text."""

    value: Any
    text: str


class Members(list[tuple[str, Any]]):
    """The names and values of an object, repeated names included."""


class TooMany(Exception):
    """An object or array has more values than allowed; a body may contain millions."""


class BodyDecoder(json.JSONDecoder):
    """Decodes a body with another function than its own."""

    def __init__(self, read: Read) -> None:
        super().__init__()
        self._read = read

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        return self._read(s, idx)


def parse_event(text: str, source: str, idempotency_key: str | None = None) -> NewEvent:
    """The event in this text. Raises InvalidEvent."""
    return _event(_decode(text, _read_event), source, idempotency_key)


def parse_batch(text: str, source: str, limit: int) -> list[NewEvent | InvalidEvent]:
    """The events of `{"events": […]}`, each with its own result. Raises InvalidEvent if the batch itself is invalid."""

    def read_events(text: str, start: int) -> tuple[Any, int]:
        if not text.startswith("[", start):
            return _values.raw_decode(text, start)
        try:
            items, end = JSONArray((text, start + 1), _at_most(limit, _read_event))
        except TooMany:
            raise InvalidEvent("events", f"has too many events; send 1 to {limit}") from None
        return items, end

    body = _decode(text, lambda text, start: _read_object(text, start, read_events))
    items = _fields(body, ("events",), "body").get("events")
    if items is None:
        raise InvalidEvent("events", "is missing; send a list of events")
    if not isinstance(items, list):
        raise InvalidEvent("events", "must be a list of events")
    if not items:
        raise InvalidEvent("events", f"has no events; send 1 to {limit}")
    return [_event_or_error(item, source) for item in items]


def _decode(text: str, read: Read) -> Any:
    try:
        return BodyDecoder(read).decode(text)
    except json.JSONDecodeError as error:
        raise InvalidEvent("body", f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidEvent("body", "is nested too deeply") from None


def _read_event(text: str, start: int) -> tuple[Any, int]:
    return _read_object(text, start, _read_part)


def _read_part(text: str, start: int) -> tuple[Part, int]:
    value, end = _values.raw_decode(text, start)
    return Part(value, text[start:end]), end


def _read_object(text: str, start: int, read_value: Read) -> tuple[Any, int]:
    """An object as Members, or as TooMany; another value as it is."""
    if not text.startswith("{", start):
        return _values.raw_decode(text, start)
    try:
        members, end = JSONObject((text, start + 1), True, _at_most(MAX_MEMBERS, read_value), None, Members)
    except TooMany as error:
        return error, _values.raw_decode(text, start)[1]
    return members, end


def _at_most(limit: int, read: Read) -> Read:
    counter = count(1)

    def read_next(text: str, start: int) -> tuple[Any, int]:
        if next(counter) > limit:
            raise TooMany
        return read(text, start)

    return read_next


def _event_or_error(item: Any, source: str) -> NewEvent | InvalidEvent:
    try:
        return _event(item, source)
    except InvalidEvent as error:
        return error


def _event(item: Any, source: str, idempotency_key: str | None = None) -> NewEvent:
    fields = _fields(item, FIELDS, EVENT)
    for name in REQUIRED:
        if name not in fields:
            raise InvalidEvent(name, "is missing")
    values = {name: part.value for name, part in fields.items()}
    external_id = values.get("external_id")
    if external_id is None:
        external_id = idempotency_key
    elif idempotency_key not in (None, external_id):
        raise InvalidEvent("external_id", "differs from the header Idempotency-Key; send one of them, or equal values")
    payload = payloads.read(fields["payload"].text)
    return NewEvent(values["event_type"], payload, source, external_id, values.get("correlation_id"))


def _fields(members: Any, known: tuple[str, ...], what: str) -> dict[str, Any]:
    if isinstance(members, TooMany):
        raise InvalidEvent(what, f"has too many fields; valid fields are {', '.join(known)}")
    if not isinstance(members, Members):
        raise InvalidEvent(what, "must be a JSON object")
    fields: dict[str, Any] = {}
    for name, value in members:
        if name not in known:
            shown = name[:50].encode("ascii", "backslashreplace").decode()
            raise InvalidEvent(what, f"has an unknown field {shown!r}; valid fields are {', '.join(known)}")
        if name in fields:
            raise InvalidEvent(name, "is given twice")
        fields[name] = value
    return fields
