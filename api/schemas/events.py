from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, Field

from api.ingest import MAX_BATCH_EVENTS
from api.pagination import PageRequest
from api.problems import ProblemDocument
from events import labels

from .common import Body, CustomerKey, CustomerOrNone, EventType, FromRow, Labels, Name, Timestamp, WithPayload
from .deliveries import Delivery


# For the documentation only: api.event_parsing reads the requests, to store payloads exactly as they were written.
class EventIn(Body):
    event_type: EventType = Field(examples=["order.created"])
    payload: Any = Field(description="Any JSON value of at most 256 KB and 64 levels.", examples=[{"order": 1}])
    external_id: Name | None = Field(None, description="Your own id of the event. A repeated id stores nothing new.")
    correlation_id: Name | None = Field(None, description="Links the events of one business case.")
    customer: CustomerKey | None = Field(None, description="The key of the customer that the event belongs to.")
    labels: Labels | None = Field(
        None, description="Texts that subscriptions can filter by.", examples=[{"region": "eu"}]
    )


class EventsIn(Body):
    events: list[EventIn] = Field(min_length=1, max_length=MAX_BATCH_EVENTS)


class EventStored(FromRow):
    uid: UUID = Field(description="The event's public id, which endpoints receive as webhook-id.")
    created: bool = Field(description="False if the event was stored before.")
    correlation_id: str


class EventResult(BaseModel):
    status: int = Field(description="The status of the event if it were sent alone: 201, 200, 403, 409, 413 or 422.")
    uid: UUID | None = None
    correlation_id: str | None = None
    problem: ProblemDocument | None = None


class EventResults(BaseModel):
    results: list[EventResult] = Field(description="One per event, in the same order.")


class EventFilters(PageRequest):
    external_id: Name | None = None
    customer: CustomerKey | None = None
    event_type: EventType | None = None
    source: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    since: Timestamp | None = Field(None, description="Stored at or after this time, such as 2026-01-31T00:00:00Z.")
    until: Timestamp | None = Field(None, description="Stored at or before this time.")


def _decoded(value: Any) -> Any:
    return dict(labels.decode(value)) if value is None or isinstance(value, str) else value


class EventItem(FromRow):
    uid: UUID
    event_type: str
    source: str
    external_id: str | None
    correlation_id: str
    customer: CustomerOrNone = None
    labels: Annotated[dict[str, str], BeforeValidator(_decoded)]
    created_at: datetime | None = Field(description="Null if the database holds no valid time.")


class Events(BaseModel):
    items: list[EventItem]
    next: str | None = Field(description="The cursor of the next page. Even a short or empty page may have one.")


class EventOut(EventItem, WithPayload):
    deliveries: list[Delivery] = Field(description="The newest deliveries; `deliveries_next` is set if there are more.")
    deliveries_next: str | None = Field(None, description="The cursor for the next page of /deliveries?event=<uid>.")
