"""Sending events, and looking at one."""

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

from . import deliveries, envelopes, limits, parsing, problems
from .auth import ApiKeyAuth, caller_of
from .envelopes import Sender
from .problems import Problem
from .schemas.events import MOST_IN_A_BATCH, EventIn, EventOut, EventResults, EventsIn, EventStored
from .scopes import EVENTS_WRITE, READ

router = Router(tags=["Events"])
# What a single event's body may have besides its payload.
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
        None, alias="Idempotency-Key", max_length=200, description="The same as external_id."
    ),
) -> Status[EventStored]:
    """A 201 or a 200 means that it is stored for good. The same again, by its external_id, is a 200."""
    caller = caller_of(request)
    limits.consume(caller, 1)
    text = parsing.text(request, payloads.MAX_BYTES + ENVELOPE_BYTES)
    sender = Sender(caller.key.sends_as, envelopes.idempotency_key(idempotency_key, "external_id"))
    try:
        [result] = publish_many([envelopes.one(text, sender)])
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
    summary=f"Send up to {MOST_IN_A_BATCH} events",
    openapi_extra=problems.documented(411, 413, 415, 429) | parsing.documented(EventsIn),
)
def send_many(request: HttpRequest) -> HttpResponse:
    """A result for each, in order. One that is refused does not hold up the others."""
    if "Idempotency-Key" in request.headers:
        raise problems.invalid("Idempotency-Key", "is for a single event; give each event of a batch its external_id")
    caller = caller_of(request)
    limits.consume(caller, 1)
    text = parsing.text(request, hub().api_batch_bytes)
    given = envelopes.many(text, Sender(caller.key.sends_as), MOST_IN_A_BATCH)
    limits.consume(caller, len(given) - 1)
    published = iter(publish_many([event for event in given if isinstance(event, NewEvent)]))
    results: list[Result] = [next(published) if isinstance(event, NewEvent) else event for event in given]
    # Written directly: a model for each of a thousand results would cost more than storing them.
    answer = {"results": [_result(position, result) for position, result in enumerate(results)]}
    return HttpResponse(json.dumps(answer), content_type="application/json")


@router.get(
    "/{uid}",
    auth=ApiKeyAuth(READ),
    response=EventOut,
    summary="An event with its deliveries",
    openapi_extra=problems.documented(404),
)
def show(request: HttpRequest, uid: UUID) -> EventOut:
    caller = caller_of(request)
    event = Event.objects.filter(uid=uid).first()
    if event is None or caller.key.sees not in (None, event.source):
        raise problems.not_found("There is no such event.")
    found, following = deliveries.of_event(event, caller)
    return EventOut(
        uid=event.uid,
        event_type=event.event_type,
        source=event.source,
        external_id=event.external_id,
        correlation_id=event.correlation_id,
        created_at=event.created_at,
        payload=json.loads(event.payload),
        deliveries=found,
        deliveries_next=following,
    )


def _result(position: int, result: Result) -> dict[str, object]:
    if isinstance(result, Published):
        status = 201 if result.created else 200
        return {"status": status, "uid": str(result.uid), "correlation_id": result.correlation_id}
    problem = _problem(result, f"events[{position}]")
    return {"status": problem.status, "problem": problem.document()}


def _problem(error: InvalidEvent | EventConflict, place: str = "") -> Problem:
    match error:
        case EventConflict():
            why = "stands for an event of another type or payload already"
            field = f"{place}.external_id" if place else "external_id"
            return Problem(409, f"{field} {why}.", [(field, why)], uid=error.uid)
        case PayloadTooLarge():
            return envelopes.as_problem(error, 413, place)
        case ReservedEventType():
            return envelopes.as_problem(error, 403, place)
    return envelopes.as_problem(error, 422, place)
