from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from api.ingest import MAX_BATCH_EVENTS
from api.problems import ProblemDocument

from .common import Body, EventType, FromRow, Labels, Name, WithPayload
from .deliveries import Delivery


# For the documentation only: api.event_parsing reads the requests, to store payloads exactly as they were written.
class EventIn(Body):
    event_type: EventType = Field(examples=["order.created"])
    payload: Any = Field(description="Any JSON value of at most 256 KB and 64 levels.", examples=[{"order": 1}])
    external_id: Name | None = Field(None, description="Your own id of the event. A repeated id stores nothing new.")
    correlation_id: Name | None = Field(None, description="Links the events of one business case.")
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


class EventOut(WithPayload):
    uid: UUID
    event_type: str
    source: str
    external_id: str | None
    correlation_id: str
    labels: dict[str, str]
    created_at: datetime | None = Field(description="Null if the database holds no valid time.")
    deliveries: list[Delivery] = Field(description="The newest deliveries; `deliveries_next` is set if there are more.")
    deliveries_next: str | None = Field(None, description="The cursor for the next page of /deliveries?event=<uid>.")
