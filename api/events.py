"""Sending events, finding and showing them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Query

from events import labels
from events.filters import EventFilter, Position
from events.models import Event

from . import deliveries, ingest, pagination, problems
from .auth import ApiKeyAuth, caller_of
from .ingest import MAX_BATCH_EVENTS
from .resource import Resource
from .schemas.common import payload_fields
from .schemas.deliveries import DeliveryFilters
from .schemas.events import EventFilters, EventIn, EventItem, EventOut, EventResults, Events, EventsIn, EventStored
from .scopes import EVENTS_WRITE, READ

resource = Resource("Events", read=ApiKeyAuth(READ), write=ApiKeyAuth(EVENTS_WRITE))
LIST = "events"
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


@resource.get("", Events, "List events, newest first")
def list_events(request: HttpRequest, filters: Query[EventFilters]) -> Events:
    """A page may have fewer items than `limit`, or none, and still have a `next`. The list ends when `next` is null."""
    pagination.require_known(request, EventFilters)
    key = caller_of(request).key
    source, customer = key.readable_source, key.only_customer
    if source not in (None, filters.source or source) or customer not in (None, filters.customer or customer):
        return Events(items=[], next=None)
    event_filter = EventFilter(
        external_id=filters.external_id,
        customer=customer or filters.customer,
        event_type=filters.event_type,
        source=source or filters.source,
        since=filters.since,
        until=filters.until,
    )
    conditions = {**filters.conditions, "key_source": source, "key_customer": customer}
    position = pagination.read(LIST, conditions, filters.cursor)
    after = Position(datetime.fromisoformat(position[0]), position[1]) if position else None
    page = pagination.page(
        lambda limit: event_filter.newest_first(after, limit),
        filters.limit,
        None if event_filter.is_indexed else event_filter.matching,
    )
    next_cursor = None
    if page.last:
        next_cursor = pagination.sign(LIST, conditions, [page.last.created_at.isoformat(), page.last.id])
    return Events(items=[EventItem.model_validate(event) for event in page.rows], next=next_cursor)


@resource.get("/{uid}", EventOut, "Show an event with its deliveries", 404)
def show(request: HttpRequest, uid: UUID) -> EventOut:
    caller = caller_of(request)
    event = Event.objects.filter(uid=uid).first()
    if (
        event is None
        or caller.key.readable_source not in (None, event.source)
        or caller.key.only_customer not in (None, event.customer_key)
    ):
        raise problems.not_found("This event does not exist.")
    page = deliveries.page(caller, DeliveryFilters.model_validate({"event": uid, "limit": pagination.MAX_LIMIT}))
    return EventOut(
        uid=event.uid,
        event_type=event.event_type,
        source=event.source,
        external_id=event.external_id,
        correlation_id=event.correlation_id,
        customer=event.customer_key or None,
        labels=dict(labels.decode(event.labels)),
        created_at=event.created_at,
        **payload_fields(event.payload),
        deliveries=page.items,
        deliveries_next=page.next,
    )
