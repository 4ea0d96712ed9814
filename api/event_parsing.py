"""Reads events from a request's body and keeps each payload exactly as it was written.

msgspec finds the events of a batch and the payload of an event. Each event is then read strictly on its own, so an
invalid event does not affect the rest of the batch. A second, slower reading finds the exact error.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NamedTuple, NoReturn

from msgspec import UNSET, DecodeError, Raw, Struct, ValidationError, defstruct
from msgspec.json import Decoder
from msgspec.structs import astuple

from events import labels, payloads
from events.errors import InvalidEvent, PayloadTooLarge
from events.intake import NewEvent, check

FIELDS = ("event_type", "payload", "external_id", "correlation_id", "labels")
REQUIRED = ("event_type", "payload")
KNOWN = frozenset(FIELDS)
# The field that an error names if it concerns the event as a whole.
EVENT = "event"
MAX_MEMBERS = 100
# Room in an event for everything except the payload: sixteen labels, written with escapes, and short texts.
ENVELOPE_BYTES = 40 * 1024
MAX_EVENT_BYTES = payloads.MAX_BYTES + ENVELOPE_BYTES
# Invalid for msgspec, but only their own event is refused. Replaced by a valid text of the same length.
NOT_STRICT = re.compile(r"NaN|Infinity|\\u[dD][89a-fA-F]")
VALID = {"NaN": "0.0", "Infinity": "10000000"}
VALID_ESCAPE = r"\u00"
# An object of one member, up to its value and after it.
BEFORE_VALUE = re.compile(r'[ \t\n\r]*\{[ \t\n\r]*"(?:[^"\\]|\\.)*"[ \t\n\r]*:[ \t\n\r]*')
AFTER_VALUE = re.compile(r"[ \t\n\r]*\}[ \t\n\r]*")
POSITION = re.compile(r"(?:JSON is malformed: )?(.*?)(?: \(byte ([0-9]+)\))?")
UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
TOO_LONG = "at most length"  # in the error of msgspec


class Event(Struct):
    payload: Raw


class Batch(Struct):
    events: Raw


class Members(list[tuple[str, Any]]):
    """The names and values of an object, repeated names included."""


class Fields(NamedTuple):
    """The fields of an event. `values` has the payload's value; `payload` its text."""

    values: dict[str, Any]
    payload: payloads.Document


_event = Decoder(Event)
_batch = Decoder(Batch)
# int() refuses numbers of thousands of digits. A constant such as NaN must not become None, which means "left out".
_members = json.JSONDecoder(object_pairs_hook=Members, parse_int=float, parse_constant=float)


def parse_event(text: str, source: str, idempotency_key: str | None = None) -> NewEvent:
    """The event in this text. Raises InvalidEvent."""
    values, payload = _quickly(text) or _exactly(text, source)
    external_id = values.get("external_id")
    if external_id is None:
        external_id = idempotency_key
    elif idempotency_key not in (None, external_id):
        raise InvalidEvent("external_id", "differs from the header Idempotency-Key; send one of them, or equal values")
    return NewEvent(
        values["event_type"], payload, source, external_id, values.get("correlation_id"), values.get("labels")
    )


def parse_batch(text: str, source: str, limit: int) -> list[NewEvent | InvalidEvent]:
    """The events of `{"events": […]}`, each with its own result. Raises InvalidEvent if the batch itself is invalid."""
    try:
        items = _items(text, limit)
    except RecursionError:
        raise InvalidEvent("body", "is nested too deeply") from None
    except ValidationError as error:
        _refuse_batch(str(error), limit)
    except DecodeError as error:
        raise InvalidEvent("body", f"is not JSON: {_with_position(text, str(error))}") from None
    if not items:
        raise InvalidEvent("events", f"has no events; send 1 to {limit}")
    return [_event_or_error(item, source) for item in items]


def _quickly(text: str) -> Fields | None:
    """The fields of a valid event; None if it may be invalid."""
    if len(text) > MAX_EVENT_BYTES:
        return None
    try:
        raw = _event.decode(text).payload
        # The whole event, because this finds repeated fields, too.
        values = payloads.parse(text)
    except (DecodeError, RecursionError, InvalidEvent):
        return None
    if len(memoryview(raw)) > payloads.MAX_BYTES or "event_type" not in values or not values.keys() <= KNOWN:
        return None
    return Fields(values, payloads.Document(str(raw, "utf-8"), values["payload"]))


def _exactly(text: str, source: str) -> Fields:
    """The fields of an event, or InvalidEvent with the exact error."""
    if len(text) > MAX_EVENT_BYTES:
        _refuse_long_event(text)
    fields = _fields(_decoded(text))
    for name in REQUIRED:
        if name not in fields:
            raise InvalidEvent(name, "is missing")
    try:
        raw = _event.decode(text).payload
    except (DecodeError, RecursionError) as error:
        _refuse_values(fields, text, source, error)
    return Fields(fields, payloads.read(bytes(raw)))


def _refuse_long_event(text: str) -> NoReturn:
    try:
        payloads.read(bytes(_event.decode(text).payload))
    except RecursionError:
        raise InvalidEvent("body", "is nested too deeply") from None
    except DecodeError:
        pass  # the length is error enough
    raise PayloadTooLarge(EVENT, f"has {len(text.encode())} bytes; at most {MAX_EVENT_BYTES} are allowed")


def _decoded(text: str) -> Any:
    try:
        return _members.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidEvent("body", f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidEvent("body", "is nested too deeply") from None


def _fields(members: Any) -> dict[str, Any]:
    if not isinstance(members, Members):
        raise InvalidEvent(EVENT, "must be a JSON object")
    if len(members) > MAX_MEMBERS:
        raise InvalidEvent(EVENT, f"has too many fields; valid fields are {', '.join(FIELDS)}")
    fields: dict[str, Any] = {}
    for name, value in members:
        if name not in KNOWN:
            raise _unknown(EVENT, name, FIELDS)
        if name in fields:
            raise InvalidEvent(name, "is given twice")
        fields[name] = _object(value) if name == labels.FIELD else value
    return fields


def _object(value: Any) -> Any:
    """An object as a dict; other values as they are."""
    if not isinstance(value, Members):
        return value
    names = [name for name, _ in value]
    if len(set(names)) < len(names):
        raise InvalidEvent(labels.FIELD, "names a label twice")
    return dict(value)


def _refuse_values(fields: dict[str, Any], text: str, source: str, error: Exception) -> NoReturn:
    """A value is a constant such as NaN or holds half of a surrogate pair: names its field."""
    texts = (fields.get(name) for name in ("external_id", "correlation_id", "labels"))
    check(NewEvent(fields["event_type"], None, source, *texts))
    payloads.parse(text)  # the other fields are valid: the error is in the payload
    raise InvalidEvent("body", f"is not JSON: {error}")


def _items(text: str, limit: int) -> list[str]:
    try:
        return _texts(_batch_of(limit).decode(text), text)
    except ValidationError:
        raise
    except DecodeError:
        valid = NOT_STRICT.sub(lambda match: VALID.get(match[0], VALID_ESCAPE), text)
        if valid == text:
            raise
    return _at_same_places(_texts(_batch_of(limit).decode(valid), valid), valid, text)


def _texts(batch: Any, text: str) -> list[str]:
    """The texts of the items."""
    start = BEFORE_VALUE.match(text)
    if start is None:
        raise InvalidEvent("events", "is missing; send a list of events")
    if AFTER_VALUE.fullmatch(text, start.end() + len(str(_batch.decode(text).events, "utf-8"))) is None:
        raise InvalidEvent("events", "is given twice")
    return [str(item, "utf-8") for item in astuple(batch.events) if item is not UNSET]


def _at_same_places(found: list[str], where: str, text: str) -> list[str]:
    """The parts of `text` at the places of the items `found`, which follow each other in `where`."""
    items, end = [], where.index("[") + 1
    for item in found:
        # Only whitespace and a comma precede an item, and no item starts with them.
        start = where.index(item, end)
        end = start + len(item)
        items.append(text[start:end])
    return items


@cache
def _batch_of(limit: int) -> Decoder[Any]:
    """Decodes a batch, and stops at an item beyond the limit: a body may contain millions."""
    items = defstruct(
        "Items", [(f"item_{index}", Raw, UNSET) for index in range(limit)], array_like=True, forbid_unknown_fields=True
    )
    return Decoder(defstruct("BatchOf", [("events", items)], forbid_unknown_fields=True))


def _refuse_batch(error: str, limit: int) -> NoReturn:
    if unknown := UNKNOWN.match(error):
        raise _unknown("body", unknown[1], ("events",))
    if TOO_LONG in error:
        raise InvalidEvent("events", f"has too many events; send 1 to {limit}")
    if "$.events" in error:
        raise InvalidEvent("events", "must be a list of events")
    if "missing" in error:
        raise InvalidEvent("events", "is missing; send a list of events")
    raise InvalidEvent("body", "must be a JSON object")


def _with_position(text: str, error: str) -> str:
    match = POSITION.fullmatch(error)
    assert match is not None
    before = text.encode()[: int(match[2])].decode(errors="ignore") if match[2] else text
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"{match[1]} at line {line}, column {column}"


def _unknown(what: str, name: str, known: tuple[str, ...]) -> InvalidEvent:
    shown = name[:50].encode("ascii", "backslashreplace").decode()
    return InvalidEvent(what, f"has an unknown field {shown!r}; valid fields are {', '.join(known)}")


def _event_or_error(item: str, source: str) -> NewEvent | InvalidEvent:
    try:
        return parse_event(item, source)
    except InvalidEvent as error:
        return error
