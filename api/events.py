"""Sending events, and showing one."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse

from events import labels
from events.models import Event

from . import deliveries, ingest, pagination, problems
from .auth import ApiKeyAuth, caller_of
from .ingest import MAX_BATCH_EVENTS
from .resource import Resource
from .schemas.common import payload_fields
from .schemas.deliveries import DeliveryFilters
from .schemas.events import EventIn, EventOut, EventResults, EventsIn, EventStored
from .scopes import EVENTS_WRITE, READ

resource = Resource("Events", read=ApiKeyAuth(READ), write=ApiKeyAuth(EVENTS_WRITE))
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "The same as the field external_id.",
    "schema": {"anyOf": [{"type": "string", "maxLength": ingest.MAX_KEY_LENGTH}, {"type": "null"}]},
}


# A running web server handles the two operations that send events before Django: see ingest.py.
@resource.post(
    "",
    {201: EventStored, 200: EventStored},
    "Send an event",
    409,
    429,
    body=EventIn,
    parameters=[IDEMPOTENCY_KEY],
)
def send(request: HttpRequest) -> HttpResponse:
    """201 and 200 mean that the event is stored durably. 200: it was stored before, with the same external_id."""
    return ingest.send(request.META, caller_of(request)).for_django()


@resource.post("/batch", EventResults, f"Send up to {MAX_BATCH_EVENTS} events", 429, body=EventsIn)
def send_many(request: HttpRequest) -> HttpResponse:
    """Returns one result per event, in the same order. A refused event does not affect the others."""
    return ingest.send_many(request.META, caller_of(request)).for_django()


@resource.get("/{uid}", EventOut, "Show an event with its deliveries", 404)
def show(request: HttpRequest, uid: UUID) -> EventOut:
    caller = caller_of(request)
    event = Event.objects.filter(uid=uid).first()
    if event is None or caller.key.readable_source not in (None, event.source):
        raise problems.not_found("This event does not exist.")
    page = deliveries.page(caller, DeliveryFilters.model_validate({"event": uid, "limit": pagination.MAX_LIMIT}))
    return EventOut(
        uid=event.uid,
        event_type=event.event_type,
        source=event.source,
        external_id=event.external_id,
        correlation_id=event.correlation_id,
        labels=dict(labels.decode(event.labels)),
        created_at=event.created_at,
        **payload_fields(event.payload),
        deliveries=page.items,
        deliveries_next=page.next,
    )
