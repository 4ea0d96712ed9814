"""Events out of a request's body: the outer objects are read strictly, the payload is taken as it was written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

from events import payloads
from events.errors import InvalidEvent
from events.intake import NewEvent

from . import problems, scanning
from .problems import Problem
from .scanning import Body, Part

FIELDS = ("event_type", "payload", "external_id", "correlation_id")
# What is wrong with an event as a whole is said of this.
EVENT = "event"
REQUIRED = ("event_type", "payload")


@dataclass(frozen=True)
class Sender:
    """Where events come from, and the id that the request's header gives to its one event."""

    source: str
    idempotency_key: str | None = None


def one(text: str, sender: Sender) -> NewEvent:
    """The event that the whole text is; InvalidEvent if it is none."""
    try:
        body = Body(text)
        return _event(body, body.whole(), sender)
    except scanning.Malformed as error:
        raise InvalidEvent("body", str(error)) from None


def many(text: str, sender: Sender, most: int) -> list[NewEvent | InvalidEvent]:
    """The events of `{"events": […]}`; one that is wrong is its own result and does not spoil the others."""
    try:
        body = Body(text)
        fields = _fields(body, body.whole(), ("events",), "body")
        if "events" not in fields:
            raise problems.invalid("events", "is missing; send a list of events")
        given = fields["events"]
        if text[given.start] != "[":
            raise problems.invalid("events", "must be a list of events")
        # Not all of them, if there are too many: there may be millions.
        parts = list(islice(body.items(given.start), most + 1))
        if not 1 <= len(parts) <= most:
            raise problems.invalid(
                "events", f"holds {'more' if parts else 'fewer'} events than may be sent at once, which is 1 to {most}"
            )
        return [_event_or_fault(body, part, sender) for part in parts]
    except (scanning.Malformed, InvalidEvent) as error:
        if isinstance(error, InvalidEvent):
            raise problems.invalid(error.field, error.why) from None
        raise problems.invalid("body", str(error)) from None


def idempotency_key(header: str | None, field: str) -> str | None:
    """The header, which takes ASCII only; `field`, in the body, takes any characters."""
    if header is not None and not header.isascii():
        raise problems.invalid("Idempotency-Key", f"must consist of ASCII characters; others go into {field}")
    return not_blank(header)


def not_blank(header: str | None) -> str | None:
    """Whoever sends an Idempotency-Key without one believes to be safe, and is not."""
    if header is not None and not header.strip():
        raise problems.invalid("Idempotency-Key", "must not be empty; give a key, or leave it out")
    return header


def _event_or_fault(body: Body, part: Part, sender: Sender) -> NewEvent | InvalidEvent:
    try:
        return _event(body, part, sender)
    except InvalidEvent as error:
        return error


def _event(body: Body, part: Part, sender: Sender) -> NewEvent:
    fields = _fields(body, part, FIELDS, EVENT)
    for name in REQUIRED:
        if name not in fields:
            raise InvalidEvent(name, "is missing")
    payload = fields["payload"]
    return NewEvent(
        fields["event_type"].value,
        payloads.read(body.text[payload.start : payload.end]),
        sender.source,
        _external_id(_text(fields, "external_id"), sender.idempotency_key),
        _text(fields, "correlation_id"),
    )


def _fields(body: Body, part: Part, known: tuple[str, ...], what: str) -> dict[str, Part]:
    if body.text[part.start] != "{":
        raise InvalidEvent(what, "must be a JSON object")
    fields: dict[str, Part] = {}
    for name, value in body.members(part.start):
        if name not in known:
            shown = name[:50].encode("ascii", "backslashreplace").decode()
            raise InvalidEvent(what, f"has a field {shown!r}, which does not exist; there are {', '.join(known)}")
        if name in fields:
            raise InvalidEvent(name, "is given twice")
        fields[name] = value
    return fields


def _text(fields: dict[str, Part], name: str) -> Any:
    return fields[name].value if name in fields else None


def _external_id(given: Any, header: str | None) -> Any:
    if given is not None and header is not None and given != header:
        raise InvalidEvent(
            "external_id", "differs from the header Idempotency-Key; give one of them, or the same twice"
        )
    return header if given is None else given


def as_problem(error: InvalidEvent, status: int, place: str = "") -> Problem:
    """`place` is that of the event in a batch, such as events[0]."""
    inner = "" if place and error.field == EVENT else error.field
    field = ".".join(filter(None, (place, inner)))
    return Problem(status, f"{field} {error.why}.", [(field, error.why)])
