"""Publishing: events are checked, stored once, and returned as stored."""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhookhub.conf import hub
from webhookhub.db.bulk import insert_one, insert_which
from webhookhub.db.compiled import CompiledSelect
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_uid
from webhookhub.logs import Log, enabled, log
from webhookhub.runner.notifier import notify

from . import declarations, labels, payloads
from .errors import EventConflict, InvalidEvent, ReservedEventType
from .models import DEFAULT_SOURCE, Event
from .payloads import Document

EVENT_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")
HUB_SOURCE = "hub"
# The first parts of the event types that only the hub publishes.
RESERVED = ("hub", "saga")
PIECE_ROWS = 500
PIECE_CHARACTERS = 2_000_000
Row = dict[str, Any]  # attribute name → value


@dataclass(frozen=True)
class NewEvent:
    """`payload` is a Python value, or a payloads.Document that is stored unchanged."""

    event_type: str
    payload: Any
    source: str = DEFAULT_SOURCE
    external_id: str | None = None
    correlation_id: str | None = None
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Published:
    """The stored event. `created` is False when it was already stored."""

    id: int
    uid: uuid.UUID
    correlation_id: str
    created: bool


class Stored(NamedTuple):
    id: int
    uid: uuid.UUID
    event_type: str
    correlation_id: str
    payload: str
    labels: str | None


def publish(
    event_type: str,
    payload: Any,
    *,
    source: str = DEFAULT_SOURCE,
    external_id: str | None = None,
    correlation_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Published:
    """Store one event, once: the same source and external id again return the first event.

    `labels` win over those that the event type takes from the payload.
    Raises InvalidEvent, or EventConflict if the external id belongs to another type, payload or labels.
    Inside a transaction of the caller, the event is stored and routed when that transaction commits.
    """
    [result] = publish_many([NewEvent(event_type, payload, source, external_id, correlation_id, labels)])
    if isinstance(result, Published):
        return result
    raise result


def publish_many(events: Sequence[NewEvent], *, by_hub: bool = False) -> list[Published | InvalidEvent | EventConflict]:
    """Store many events, hundreds per statement; one result each, in order. An invalid one does not affect the others.

    `by_hub` allows the reserved source and event types. The valid events are stored in one transaction.
    """
    rows = [_row_or_error(event, by_hub) for event in events]
    stored = _store([row for row in rows if not isinstance(row, InvalidEvent)])
    return [
        row if isinstance(row, InvalidEvent) else _result(event, row, stored[_identity(row)])
        for event, row in zip(events, rows, strict=True)
    ]


def check(event: NewEvent) -> None:
    """Raises InvalidEvent if a producer may not send this event."""
    _row(event, by_hub=False)


def _store(rows: Sequence[Row]) -> dict[Any, Stored]:
    """Insert new events; returns the stored event of each row's identity."""
    # The same identity twice in one batch is one event; the second is compared with the first, like any repeat.
    first = {_identity(row): row for row in reversed(rows)}
    pieces = list(_pieces([row for row in rows if first[_identity(row)] is row]))

    def store() -> dict[Any, Stored]:
        return {_identity(row): stored for piece in pieces for row, stored in _store_piece(piece)}

    # A single statement needs no transaction.
    stored = in_transaction(store) if len(pieces) > 1 else store()
    created = {row["uid"] for row in rows}
    notify("router", "events", [event.id for event in stored.values() if event.uid in created])
    return stored


def _store_piece(rows: Sequence[Row]) -> Iterator[tuple[Row, Stored]]:
    ids = _insert(rows)
    repeats: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row["uid"] in ids:
            yield row, Stored(ids[row["uid"]], *(row[name] for name in Stored._fields[1:]))
        else:
            repeats[row["source"]][row["external_id"]] = row
    for source, by_external_id in repeats.items():
        events = Event.objects.filter(source=source, external_id__in=by_external_id)
        for external_id, *columns in events.values_list("external_id", *Stored._fields):
            yield by_external_id[external_id], Stored(*columns)


def _insert(rows: Sequence[Row]) -> dict[uuid.UUID, int]:
    """Insert the new ones of these events; returns their ids by their uids."""
    key = ("source", "external_id")
    if len(rows) == 1:
        pk = insert_one(Event, rows[0], key=key)
        return {} if pk is None else {rows[0]["uid"]: pk}
    # A producer that got no response sends the whole batch again.
    inserted = insert_which(Event, rows, key=key, look_first=True)
    return dict(_ids(uids=[row["uid"] for row in inserted])) if inserted else {}


_ids = CompiledSelect(lambda uids: Event.objects.filter(uid__in=uids).values_list("uid", "id"))


def event_type_root(event_type: str) -> str:
    return event_type.lower().partition(".")[0]


def is_reserved(event_type: str) -> bool:
    """Whether only the hub may use this type. Case-insensitive, because receivers and databases may be."""
    return event_type_root(event_type) in RESERVED


def is_the_hub(source: str) -> bool:
    """Whether this source is the hub, in any case."""
    return source.casefold() == HUB_SOURCE


def _row_or_error(event: NewEvent, by_hub: bool) -> Row | InvalidEvent:
    try:
        row = _row(event, by_hub)
        if not by_hub:
            _apply_declaration(event, row)
    except InvalidEvent as error:
        return error
    return row


def _apply_declaration(event: NewEvent, row: Row) -> None:
    """Add the labels that the event type takes from the payload. Raises InvalidEvent if it does not allow the event."""
    rules = declarations.find(event.event_type)
    if rules is None:
        if hub().strict_event_types:
            near = declarations.similar(event.event_type)
            hint = f"did you mean {near}?" if near else "declare it first"
            raise InvalidEvent("event_type", f"{event.event_type} is not declared; {hint}")
        return
    if not rules.reads_payload:
        return
    payload = event.payload.parsed() if isinstance(event.payload, Document) else json.loads(row["payload"])
    if errors := rules.errors(payload):
        raise InvalidEvent(payloads.FIELD, f"breaks the schema of {event.event_type}: {errors}")
    if rules.pointers and (found := labels.from_payload(rules.pointers, payload)):
        found.update(event.labels or {})
        labels.check_count(len(found))
        row["labels"] = labels.encode(found)


def _row(event: NewEvent, by_hub: bool) -> Row:
    if not isinstance(event.event_type, str) or not EVENT_TYPE.match(event.event_type):
        raise InvalidEvent("event_type", "must be 1 to 100 letters, digits, dots, dashes and underscores")
    if not by_hub and is_reserved(event.event_type):
        name = event_type_root(event.event_type)
        raise ReservedEventType("event_type", f"is {name!r} or starts with {name + '.'!r}: reserved for the hub")
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
        "labels": None if event.labels is None else labels.encode(labels.check(event.labels)),
    }


def _pieces(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows per statement: a server closes the connection when a statement is too long."""
    piece: list[Row] = []
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


def _identity(row: Row) -> tuple[str, str] | uuid.UUID:
    return row["uid"] if row["external_id"] is None else (row["source"], row["external_id"])


def _result(event: NewEvent, row: Row, stored: Stored) -> Published | EventConflict:
    created = stored.uid == row["uid"]
    same = created or (
        stored.event_type == row["event_type"]
        and payloads.same_document(stored.payload, row["payload"])
        and _same_labels(event, row, stored)
    )
    if not same:
        return EventConflict(row["source"], row["external_id"], str(stored.uid))
    message = Log.EVENT_PUBLISHED if created else Log.EVENT_DUPLICATE
    if enabled(message):
        log(
            message,
            event_uid=str(stored.uid),
            event_type=stored.event_type,
            correlation_id=stored.correlation_id,
            delivery_status="Published",
        )
    return Published(stored.id, stored.uid, stored.correlation_id, created)


def _same_labels(event: NewEvent, row: Row, stored: Stored) -> bool:
    if row["labels"] == stored.labels:
        return True
    rules = declarations.find(event.event_type)
    declared = {name for name, _ in rules.pointers} if rules else set()
    return labels.is_repeat(event.labels or {}, labels.decode(stored.labels), declared)
