"""The catalogue of event types."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Query, Status

from events import catalogue, openapi, payloads
from events.catalogue import Declaration
from events.errors import InvalidEvent
from events.models import EventType

from . import pagination, parsing, problems
from .auth import ApiKeyAuth
from .problems import Problem
from .resource import Resource
from .schemas.common import EventType as Name
from .schemas.event_types import (
    Deleted,
    EventTypeFilters,
    EventTypeIn,
    EventTypeOut,
    EventTypes,
    ImportedTypes,
    OpenAPIDocument,
    SeenType,
    SeenTypes,
)
from .scopes import EVENT_TYPES_WRITE, READ

LIST = "event types"
# A schema and a sample of the largest size, and the rest.
MAX_BYTES = 256 * 1024
resource = Resource(
    "Event types", read=ApiKeyAuth(READ), write=ApiKeyAuth(EVENT_TYPES_WRITE, hub_wide="the event type catalogue")
)
whole = Resource(
    "Event types",
    read=ApiKeyAuth(READ, hub_wide="the event type catalogue"),
    write=ApiKeyAuth(EVENT_TYPES_WRITE, hub_wide="the event type catalogue"),
)
PathName = Annotated[Name, Path()]


@resource.get("", EventTypes, "List the declared event types")
def list_event_types(request: HttpRequest, filters: Query[EventTypeFilters]) -> EventTypes:
    pagination.require_known(request, EventTypeFilters)
    conditions = filters.conditions
    position = pagination.read(LIST, conditions, filters.cursor)
    rows = EventType.objects.filter(**conditions).order_by("name")
    if position is not None:
        rows = rows.filter(name__gt=position[0])
    page = pagination.page(lambda limit: rows[:limit], filters.limit)
    next_cursor = pagination.sign(LIST, conditions, [page.last.name]) if page.last else None
    return EventTypes(items=[_described(row) for row in page.rows], next=next_cursor)


@resource.get("/{name}", EventTypeOut, "Show an event type", 404)
def show(request: HttpRequest, name: PathName) -> EventTypeOut:
    row = EventType.objects.filter(name=name).first()
    if row is None:
        raise problems.not_found("This event type is not declared.")
    return _described(row)


@resource.put(
    "/{name}",
    {201: EventTypeOut, 200: EventTypeOut},
    "Declare an event type, or replace its declaration",
    body=EventTypeIn,
)
def declare(request: HttpRequest, name: PathName) -> Status[EventTypeOut]:
    """201: it is new. The same declaration again changes nothing. A change has effect within a second."""
    body = parsing.read(request, EventTypeIn, MAX_BYTES)
    try:
        saved = catalogue.declare(name, Declaration(**body.model_dump()))
    except catalogue.InvalidEventType as error:
        raise _refused(error) from None
    return Status(201 if saved.created else 200, _described(saved.event_type))


@resource.delete("/{name}", Deleted, "Delete the declaration of an event type")
def delete(request: HttpRequest, name: PathName) -> Deleted:
    """Events of this type, stored and new ones, are not affected, unless the hub accepts declared types only."""
    return Deleted(deleted=catalogue.delete(name))


# Not under /event-types, where any word may be the name of a type.
@whole.get("/undeclared", SeenTypes, "List types of stored events that are not declared")
def undeclared(request: HttpRequest) -> SeenTypes:
    """A typo of a producer shows here."""
    seen, more = catalogue.undeclared()
    return SeenTypes(items=[SeenType(name=item.name, last_at=item.last_at) for item in seen], more=more)


@whole.get("/openapi", dict[str, Any], "Export the catalogue as an OpenAPI 3.1 document")
def export(request: HttpRequest) -> dict[str, Any]:
    """Each event type is one of the document's webhooks."""
    return openapi.export(EventType.objects.order_by("name"))


@whole.put("/openapi", ImportedTypes, "Import the webhooks of an OpenAPI 3.1 document", body=OpenAPIDocument)
def import_document(request: HttpRequest) -> ImportedTypes:
    """Declares all of them or, if one is invalid, none. Types that are not in the document stay as they are."""
    try:
        document = payloads.parse(parsing.text(request.META, openapi.MAX_BYTES))
    except InvalidEvent as error:
        raise problems.invalid("body", error.why) from None
    try:
        saved = openapi.import_document(document)
    except openapi.InvalidDocument as error:
        raise Problem(422, f"Nothing was stored: {error}.", [("body", str(error))]) from None
    return ImportedTypes(
        created=[item.event_type.name for item in saved if item.created],
        existing=[item.event_type.name for item in saved if not item.created],
    )


def _described(row: EventType) -> EventTypeOut:
    times = {name: getattr(row, name) for name in ("deprecated_at", "created_at", "updated_at")}
    return EventTypeOut(name=row.name, **vars(Declaration.of(row)), **times)


def _refused(error: catalogue.InvalidEventType) -> Problem:
    return Problem(422, f"Nothing was stored: {error}.", list(error.errors.items()))
