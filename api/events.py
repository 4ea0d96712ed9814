"""Sending events, and showing one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Status

from events.errors import EventConflict, InvalidEvent, PayloadTooLarge, ReservedEventType
from events.intake import NewEvent, Published, publish_many
from events.models import Event
from webhookhub.conf import hub
from webhookhub.db.ingest import ingest_connection

from . import deliveries, event_parsing, limits, pagination, parsing, problems
from .auth import ApiKeyAuth, caller_of
from .problems import Problem
from .resource import Resource
from .schemas.deliveries import DeliveryFilters
from .schemas.events import MAX_BATCH_EVENTS, EventIn, EventOut, EventResults, EventsIn, EventStored
from .scopes import EVENTS_WRITE, READ

resource = Resource("Events", read=ApiKeyAuth(READ), write=ApiKeyAuth(EVENTS_WRITE))
STATUSES: dict[type[Exception], int] = {ReservedEventType: 403, EventConflict: 409, PayloadTooLarge: 413}

Result = Published | InvalidEvent | EventConflict


@resource.post("", {201: EventStored, 200: EventStored}, "Send an event", 409, 429, body=EventIn)
def send(
    request: HttpRequest,
    response: HttpResponse,
    idempotency_key: str | None = Header(  # type: ignore[type-arg]
        None, alias="Idempotency-Key", max_length=200, description="The same as the field external_id."
    ),
) -> Status[EventStored]:
    """201 and 200 mean that the event is stored durably. 200: it was stored before, with the same external_id."""
    caller = caller_of(request)
    limits.consume(caller, 1)
    text = parsing.text(request, event_parsing.MAX_EVENT_BYTES)
    key = parsing.idempotency_key(idempotency_key, "external_id")
    try:
        [result] = _publish([event_parsing.parse_event(text, caller.key.event_source, key)])
    except InvalidEvent as error:
        result = error
    if not isinstance(result, Published):
        raise _problem(result)
    response["Location"] = f"/api/v1/events/{result.uid}"
    return Status(201 if result.created else 200, EventStored.model_validate(result))


@resource.post("/batch", EventResults, f"Send up to {MAX_BATCH_EVENTS} events", 429, body=EventsIn)
def send_many(request: HttpRequest) -> HttpResponse:
    """Returns one result per event, in the same order. A refused event does not affect the others."""
    if "Idempotency-Key" in request.headers:
        raise problems.invalid("Idempotency-Key", "is not allowed for a batch; give each event an external_id")
    caller = caller_of(request)
    limits.consume(caller, 1)
    text = parsing.text(request, hub().api_batch_bytes)
    try:
        parsed = event_parsing.parse_batch(text, caller.key.event_source, MAX_BATCH_EVENTS)
    except InvalidEvent as error:
        raise _problem(error) from None
    limits.consume(caller, len(parsed) - 1)
    published = iter(_publish([event for event in parsed if isinstance(event, NewEvent)]))
    results: list[Result] = [next(published) if isinstance(event, NewEvent) else event for event in parsed]
    # Not validated by a model: for a thousand results that would cost more than storing the events.
    body = {"results": [_result(index, result) for index, result in enumerate(results)]}
    return HttpResponse(json.dumps(body), content_type="application/json")


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
        created_at=event.created_at,
        payload=json.loads(event.payload),
        deliveries=page.items,
        deliveries_next=page.next,
    )


def _publish(events: Sequence[NewEvent]) -> list[Result]:
    with ingest_connection():
        return publish_many(events)


def _result(index: int, result: Result) -> dict[str, object]:
    if isinstance(result, Published):
        status = 201 if result.created else 200
        return {"status": status, "uid": str(result.uid), "correlation_id": result.correlation_id}
    problem = _problem(result, f"events[{index}]")
    return {"status": problem.status, "problem": problem.document()}


def _problem(error: InvalidEvent | EventConflict, place: str = "") -> Problem:
    """`place` is the event's place in a batch, such as events[0]."""
    if isinstance(error, EventConflict):
        field, why, uid = "external_id", "is used by another event, with a different type or payload", error.uid
    else:
        field, why, uid = error.field, error.why, None
    if place:
        field = place if field == event_parsing.EVENT else f"{place}.{field}"
    return Problem(STATUSES.get(type(error), 422), f"{field} {why}.", [(field, why)], uid=uid)
