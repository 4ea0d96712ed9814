"""Events, their encoded form, batches of them, and their results."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import FieldError, HubError, Invalid

MAX_BATCH_EVENTS = 1000
MAX_BATCH_BYTES = 4_000_000


@dataclass(frozen=True)
class Event:
    """`external_id` is the producer's own id: the hub stores an event with the same id once."""

    event_type: str
    payload: Any
    external_id: str | None = None
    correlation_id: str | None = None
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Published:
    """The stored event. `created` is False when it was already stored."""

    uid: str
    external_id: str
    correlation_id: str
    created: bool


@dataclass(frozen=True)
class Failed:
    """An event of a batch that was not stored, or not certainly, and why."""

    external_id: str
    error: HubError


Result = Published | Failed


@dataclass(frozen=True)
class Encoded:
    position: int
    external_id: str
    body: bytes


def encode(event: Event, position: int = 0) -> Encoded:
    """The request body. An event without an external id gets one: otherwise a retry could store it twice."""
    external_id = uuid.uuid4().hex if event.external_id is None else event.external_id
    document = {"event_type": event.event_type, "payload": event.payload, "external_id": external_id}
    if event.correlation_id is not None:
        document["correlation_id"] = event.correlation_id
    if event.labels is not None:
        document["labels"] = dict(event.labels)
    try:
        body = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        why = f"cannot be written as JSON: {error}"
        raise Invalid(f"payload {why}", errors=[FieldError("payload", why)], external_id=external_id) from error
    return Encoded(position, external_id, body)


def batches(events: Iterable[Encoded]) -> Iterator[list[Encoded]]:
    """The events in batches that the hub accepts."""
    batch: list[Encoded] = []
    size = 0
    for event in events:
        if batch and (len(batch) == MAX_BATCH_EVENTS or size + len(event.body) > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += len(event.body) + 1
    if batch:
        yield batch


def batch_body(batch: Iterable[Encoded]) -> bytes:
    return b'{"events":[' + b",".join(event.body for event in batch) + b"]}"
