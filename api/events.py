"""Sending events, and showing one."""

from __future__ import annotations

import json
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Router, Status

from events import payloads
from events.errors import EventConflict, InvalidEvent, PayloadTooLarge, ReservedEventType
from events.intake import NewEvent, Published, publish_many
from events.models import Event
from webhookhub.conf import hub

from . import deliveries, event_parsing, limits, parsing, problems
from .auth import ApiKeyAuth, caller_of
from .event_parsing import Sender
from .problems import Problem
from .schemas.events import MAX_BATCH_EVENTS, EventIn, EventOut, EventResults, EventsIn, EventStored
from .scopes import EVENTS_WRITE, READ

router = Router(tags=["Events"])
# Room in the body for everything except the payload.
ENVELOPE_BYTES = 8 * 1024

Result = Published | InvalidEvent | EventConflict


@router.post(
    "",
    auth=ApiKeyAuth(EVENTS_WRITE),
    response={201: EventStored, 200: EventStored},
    summary="Send an event",
    openapi_extra=problems.documented(409, 411, 413, 415, 429) | parsing.documented(EventIn),
)
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
    text = parsing.text(request, payloads.MAX_BYTES + ENVELOPE_BYTES)
    sender = Sender(caller.key.sends_as, parsing.idempotency_key(idempotency_key, "external_id"))
    try:
        [result] = publish_many([event_parsing.parse_event(text, sender)])
    except InvalidEvent as error:
        result = error
    if not isinstance(result, Published):
        raise _problem(result)
    response["Location"] = f"/api/v1/events/{result.uid}"
    stored = EventStored(uid=result.uid, created=result.created, correlation_id=result.correlation_id)
    return Status(201 if result.created else 200, stored)


@router.post(
    "/batch",
    auth=ApiKeyAuth(EVENTS_WRITE),
    response=EventResults,
    summary=f"Send up to {MAX_BATCH_EVENTS} events",
    openapi_extra=problems.documented(411, 413, 415, 429) | parsing.documented(EventsIn),
)
def send_many(request: HttpRequest) -> HttpResponse:
    """Returns one result per event, in the same order. A refused event does not affect the others."""
    if "Idempotency-Key" in request.headers:
        raise problems.invalid("Idempotency-Key", "is not allowed for a batch; give each event an external_id")
    caller = caller_of(request)
    limits.consume(caller, 1)
    text = parsing.text(request, hub().api_batch_bytes)
    parsed = event_parsing.parse_batch(text, Sender(caller.key.sends_as), MAX_BATCH_EVENTS)
    limits.consume(caller, len(parsed) - 1)
    published = iter(publish_many([event for event in parsed if isinstance(event, NewEvent)]))
    results: list[Result] = [next(published) if isinstance(event, NewEvent) else event for event in parsed]
    # Not validated by a model: for a thousand results that would cost more than storing the events.
    body = {"results": [_result(index, result) for index, result in enumerate(results)]}
    return HttpResponse(json.dumps(body), content_type="application/json")


@router.get(
    "/{uid}",
    auth=ApiKeyAuth(READ),
    response=EventOut,
    summary="Show an event with its deliveries",
    openapi_extra=problems.documented(404),
)
def show(request: HttpRequest, uid: UUID) -> EventOut:
    caller = caller_of(request)
    event = Event.objects.filter(uid=uid).first()
    if event is None or caller.key.sees not in (None, event.source):
        raise problems.not_found("This event does not exist.")
    items, next_cursor = deliveries.of_event(event, caller)
    return EventOut(
        uid=event.uid,
        event_type=event.event_type,
        source=event.source,
        external_id=event.external_id,
        correlation_id=event.correlation_id,
        created_at=event.created_at,
        payload=json.loads(event.payload),
        deliveries=items,
        deliveries_next=next_cursor,
    )


def _result(index: int, result: Result) -> dict[str, object]:
    if isinstance(result, Published):
        status = 201 if result.created else 200
        return {"status": status, "uid": str(result.uid), "correlation_id": result.correlation_id}
    problem = _problem(result, f"events[{index}]")
    return {"status": problem.status, "problem": problem.document()}


def _problem(error: InvalidEvent | EventConflict, place: str = "") -> Problem:
    match error:
        case EventConflict():
            why = "is used by another event, with a different type or payload"
            field = f"{place}.external_id" if place else "external_id"
            return Problem(409, f"{field} {why}.", [(field, why)], uid=error.uid)
        case PayloadTooLarge():
            return event_parsing.as_problem(error, 413, place)
        case ReservedEventType():
            return event_parsing.as_problem(error, 403, place)
    return event_parsing.as_problem(error, 422, place)
