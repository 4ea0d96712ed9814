"""Reads events from a request's body and keeps each payload exactly as it was written.

The body is checked leniently first (numbers of any size, repeated keys). Each payload is then read strictly on its own,
so an invalid payload affects its own event and not the rest of the batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from events import payloads
from events.errors import InvalidEvent
from events.intake import NewEvent

from . import problems
from .problems import Problem

FIELDS = ("event_type", "payload", "external_id", "correlation_id")
REQUIRED = ("event_type", "payload")
# The field that an error names if it concerns the event as a whole.
EVENT = "event"
WHITESPACE = re.compile(r"[ \t\n\r]*")
# int() refuses numbers of thousands of digits. A constant such as NaN must not become None, which means "left out".
_decoder = json.JSONDecoder(parse_int=float, parse_constant=float)


@dataclass(frozen=True)
class Sender:
    """The source of the events, and the Idempotency-Key of a request with a single event."""

    source: str
    idempotency_key: str | None = None


class Part(NamedTuple):
    """A value and its place in the text."""

    value: Any
    start: int
    end: int


def parse_event(text: str, sender: Sender) -> NewEvent:
    """The event in this text. Raises InvalidEvent."""
    return _event(text, _value_start(text), sender)


def parse_batch(text: str, sender: Sender, limit: int) -> list[NewEvent | InvalidEvent]:
    """The events of `{"events": […]}`, each with its own result. Raises Problem if the batch itself is invalid."""
    try:
        fields = _fields(text, _value_start(text), ("events",), "body")
    except InvalidEvent as error:
        raise problems.invalid(error.field, error.why) from None
    if "events" not in fields:
        raise problems.invalid("events", "is missing; send a list of events")
    start = fields["events"].start
    if text[start] != "[":
        raise problems.invalid("events", "must be a list of events")
    # A body may hold millions of items; read no more than needed.
    parts = list(islice(array_items(text, start), limit + 1))
    if not 1 <= len(parts) <= limit:
        raise problems.invalid("events", f"has {'too many' if parts else 'no'} events; send 1 to {limit}")
    return [_event_or_error(text, part, sender) for part in parts]


def as_problem(error: InvalidEvent, status: int, place: str = "") -> Problem:
    """`place` is the event's place in a batch, such as events[0]."""
    inner = "" if place and error.field == EVENT else error.field
    field = ".".join(filter(None, (place, inner)))
    return Problem(status, f"{field} {error.why}.", [(field, error.why)])


def check_json(text: str) -> int:
    """The position of the JSON value in this text. Raises JSONDecodeError, or RecursionError if it is too deep."""
    _decoder.decode(text)
    return _skip(text, 0)


def object_members(text: str, start: int) -> Iterator[tuple[str, Part]]:
    """The members of the object at `start`, repeated keys included. The text must have passed check_json."""
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, end = _decoder.raw_decode(text, at)
        part = _part(text, _skip(text, _skip(text, end) + 1))
        yield key, part
        at = _after_comma(text, part.end)


def array_items(text: str, start: int) -> Iterator[Part]:
    """The items of the array at `start`. The text must have passed check_json."""
    at = _skip(text, start + 1)
    while text[at] != "]":
        part = _part(text, at)
        yield part
        at = _after_comma(text, part.end)


def _value_start(text: str) -> int:
    try:
        return check_json(text)
    except json.JSONDecodeError as error:
        raise InvalidEvent("body", f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidEvent("body", "is nested too deeply") from None


def _event_or_error(text: str, part: Part, sender: Sender) -> NewEvent | InvalidEvent:
    try:
        return _event(text, part.start, sender)
    except InvalidEvent as error:
        return error


def _event(text: str, start: int, sender: Sender) -> NewEvent:
    fields = _fields(text, start, FIELDS, EVENT)
    for name in REQUIRED:
        if name not in fields:
            raise InvalidEvent(name, "is missing")
    payload = fields["payload"]
    external_id, correlation_id = (
        fields[name].value if name in fields else None for name in ("external_id", "correlation_id")
    )
    if external_id is None:
        external_id = sender.idempotency_key
    elif sender.idempotency_key not in (None, external_id):
        raise InvalidEvent("external_id", "differs from the header Idempotency-Key; send one of them, or equal values")
    return NewEvent(
        fields["event_type"].value,
        payloads.read(text[payload.start : payload.end]),
        sender.source,
        external_id,
        correlation_id,
    )


def _fields(text: str, start: int, known: tuple[str, ...], what: str) -> dict[str, Part]:
    if text[start] != "{":
        raise InvalidEvent(what, "must be a JSON object")
    fields: dict[str, Part] = {}
    for name, part in object_members(text, start):
        if name not in known:
            shown = name[:50].encode("ascii", "backslashreplace").decode()
            raise InvalidEvent(what, f"has an unknown field {shown!r}; valid fields are {', '.join(known)}")
        if name in fields:
            raise InvalidEvent(name, "is given twice")
        fields[name] = part
    return fields


def _part(text: str, start: int) -> Part:
    value, end = _decoder.raw_decode(text, start)
    return Part(value, start, end)


def _after_comma(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    match = WHITESPACE.match(text, at)
    assert match is not None
    return match.end()
