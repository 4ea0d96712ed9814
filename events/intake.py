"""Publishing: events are checked, stored once, and returned as stored."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webhookhub.db.bulk import insert_new
from webhookhub.db.compiled import CompiledSelect, columns_of
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_uid
from webhookhub.logs import Log, log
from webhookhub.runner.notifier import notify

from . import payloads
from .errors import EventConflict, InvalidEvent, ReservedEventType
from .models import DEFAULT_SOURCE, Event

EVENT_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
HUB_SOURCE = "hub"
RESERVED = "saga"
PIECE_ROWS = 500
PIECE_CHARACTERS = 2_000_000


@dataclass(frozen=True)
class NewEvent:
    """`payload` is a Python value, or a payloads.Document that is stored unchanged."""

    event_type: str
    payload: Any
    source: str = DEFAULT_SOURCE
    external_id: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True)
class Published:
    """The stored event. `created` is False when it was already stored."""

    id: int
    uid: uuid.UUID
    correlation_id: str
    created: bool


def publish(
    event_type: str,
    payload: Any,
    *,
    source: str = DEFAULT_SOURCE,
    external_id: str | None = None,
    correlation_id: str | None = None,
) -> Published:
    """Store one event, once: the same source and external id again return the first event.

    Raises InvalidEvent, or EventConflict if the external id belongs to another type or payload.
    Inside a transaction of the caller, the event is stored and routed when that transaction commits.
    """
    [result] = publish_many([NewEvent(event_type, payload, source, external_id, correlation_id)])
    if isinstance(result, Published):
        return result
    raise result


def publish_many(events: Sequence[NewEvent], *, by_hub: bool = False) -> list[Published | InvalidEvent | EventConflict]:
    """Store many events, hundreds per statement; one result each, in order. An invalid one does not affect the others.

    `by_hub` allows the reserved source and event types. The valid events are stored in one transaction.
    """
    results: list[Published | InvalidEvent | EventConflict | None] = [None] * len(events)
    rows: dict[int, dict[str, Any]] = {}
    for position, event in enumerate(events):
        try:
            rows[position] = _row(event, by_hub)
        except InvalidEvent as error:
            results[position] = error
    stored = _store(list(rows.values()))
    for position, row in rows.items():
        results[position] = _result(row, stored[_identity(row)])
    return [result for result in results if result is not None]


def _store(rows: Sequence[dict[str, Any]]) -> dict[Any, Event]:
    """Insert new events; returns the stored event of each row's identity."""
    # The same identity twice in one batch is one event; the second is compared with the first, like any repeat.
    first = {_identity(row): row for row in reversed(rows)}
    pieces = list(_pieces([row for row in rows if first[_identity(row)] is row]))

    def store() -> dict[Any, Event]:
        stored: dict[Any, Event] = {}
        for piece in pieces:
            # A producer that got no response sends the whole batch again.
            insert_new(Event, piece, key=("source", "external_id"), look_first=len(piece) > 1)
            stored |= _stored(piece)
        return stored

    # A single statement needs no transaction.
    stored = in_transaction(store) if len(pieces) > 1 else store()
    notify("router")
    _read_payloads_of_repeats(rows, stored)
    return stored


def is_reserved(event_type: str) -> bool:
    """Whether only the hub may use this type. Case-insensitive, because receivers and databases may be."""
    return event_type.lower().partition(".")[0] == RESERVED


def is_the_hub(source: str) -> bool:
    """Whether this source is the hub, in any case."""
    return source.casefold() == HUB_SOURCE


def _row(event: NewEvent, by_hub: bool) -> dict[str, Any]:
    if not isinstance(event.event_type, str) or not EVENT_TYPE.match(event.event_type):
        raise InvalidEvent("event_type", "must be 1 to 100 letters, digits, dots, dashes and underscores")
    if not by_hub and is_reserved(event.event_type):
        raise ReservedEventType(
            "event_type", f"is {RESERVED!r} or starts with {RESERVED + '.'!r}: reserved for the hub"
        )
    if not by_hub and isinstance(event.source, str) and is_the_hub(event.source):
        raise InvalidEvent("source", f"is {event.source!r}, which is reserved for the hub; choose another")
    uid = new_uid()
    return {
        "uid": uid,
        "event_type": event.event_type,
        "source": _name("source", event.source, 100),
        "external_id": None if event.external_id is None else _name("external_id", event.external_id, 200),
        "correlation_id": str(uid)
        if event.correlation_id is None
        else _name("correlation_id", event.correlation_id, 200),
        "payload": payloads.encode(event.payload),
    }


def _pieces(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows per statement: a server closes the connection when a statement is too long."""
    piece: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        length = len(row["payload"])
        if piece and (len(piece) == PIECE_ROWS or size + length > PIECE_CHARACTERS):
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += length
    if piece:
        yield piece


def _name(field: str, value: Any, limit: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= limit:
        raise InvalidEvent(field, f"must be a text of 1 to {limit} characters")
    # Trimmed: databases disagree on whether a trailing space makes a different key.
    if not value.isprintable() or value != value.strip():
        raise InvalidEvent(field, "must not contain control characters, or begin or end with a space")
    return value


def _identity(row: dict[str, Any]) -> tuple[str, str] | uuid.UUID:
    return row["uid"] if row["external_id"] is None else (row["source"], row["external_id"])


def _stored(rows: Sequence[dict[str, Any]]) -> dict[Any, Event]:
    uids = [row["uid"] for row in rows if row["external_id"] is None]
    by_source: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["external_id"] is not None:
            by_source[row["source"]].append(row["external_id"])
    stored: dict[Any, Event] = {}
    if uids:
        for event in map(_event, _by_uid(uids=uids)):
            stored[event.uid] = event
    for source, external_ids in by_source.items():
        for event in map(_event, _by_external_id(source=source, external_ids=external_ids)):
            stored[source, event.external_id] = event
    return stored


# Payloads are read back only for repeats: a new event needs no comparison.
COLUMNS = columns_of(Event, without="payload")
_by_uid = CompiledSelect(lambda uids: Event.objects.filter(uid__in=uids).values_list(*COLUMNS))
_by_external_id = CompiledSelect(
    lambda source, external_ids: Event.objects.filter(source=source, external_id__in=external_ids).values_list(*COLUMNS)
)


def _event(row: Sequence[Any]) -> Event:
    return Event.from_db(None, COLUMNS, row)


def _read_payloads_of_repeats(rows: Sequence[dict[str, Any]], stored: dict[Any, Event]) -> None:
    repeated = {event.id: event for row in rows if (event := stored[_identity(row)]).uid != row["uid"]}
    ids = list(repeated)
    for start in range(0, len(ids), PIECE_ROWS):
        piece = Event.objects.filter(id__in=ids[start : start + PIECE_ROWS]).values_list("id", "payload")
        for id, payload in piece:
            repeated[id].payload = payload


def _result(row: dict[str, Any], event: Event) -> Published | EventConflict:
    created = event.uid == row["uid"]
    same = created or (event.event_type == row["event_type"] and payloads.same_document(event.payload, row["payload"]))
    if not same:
        return EventConflict(event.source, row["external_id"], str(event.uid))
    log(
        Log.EVENT_PUBLISHED if created else Log.EVENT_DUPLICATE,
        event_uid=str(event.uid),
        event_type=event.event_type,
        correlation_id=event.correlation_id,
        delivery_status="Published",
    )
    return Published(event.id, event.uid, event.correlation_id, created)
