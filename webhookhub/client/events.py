"""Events as a producer gives them, as they are sent, and what became of them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from .errors import FieldError, HubError, Invalid


@dataclass(frozen=True)
class Event:
    """Something that happened. The `external_id` is the producer's own name for it: the same again is stored once."""

    event_type: str
    payload: Any
    external_id: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True)
class Published:
    """The stored event. `created` is False when it was there already."""

    uid: str
    external_id: str
    correlation_id: str
    created: bool


@dataclass(frozen=True)
class Failed:
    """An event of a batch that is not known to be stored, and why."""

    external_id: str
    error: HubError


Result = Published | Failed


@dataclass(frozen=True)
class Encoded:
    position: int
    external_id: str
    body: bytes


def encode(event: Event, position: int = 0) -> Encoded:
    """As it is sent, under an external id in any case: without one, a second try could make a second event."""
    external_id = uuid.uuid4().hex if event.external_id is None else event.external_id
    document = {"event_type": event.event_type, "payload": event.payload, "external_id": external_id}
    if event.correlation_id is not None:
        document["correlation_id"] = event.correlation_id
    try:
        body = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        why = f"cannot be written as JSON: {error}"
        raise Invalid(f"payload {why}", errors=[FieldError("payload", why)], external_id=external_id) from error
    return Encoded(position, external_id, body)
