from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from api.problems import ProblemDocument

from .common import Body, EventType, Name
from .deliveries import Delivery

MOST_IN_A_BATCH = 1000


# For the documentation: requests are read by api.envelopes, so that the payload is stored as it was written.
class EventIn(Body):
    event_type: EventType = Field(examples=["order.created"])
    payload: Any = Field(description="Any JSON value of at most 256 KB and 64 levels.", examples=[{"order": 1}])
    external_id: Name | None = Field(None, description="Your own id: the same again stores nothing new.")
    correlation_id: Name | None = Field(None, description="Ties the events of one business case together.")


class EventsIn(Body):
    events: list[EventIn] = Field(min_length=1, max_length=MOST_IN_A_BATCH)


class EventStored(BaseModel):
    uid: UUID = Field(description="The event's public id, which receivers get as webhook-id.")
    created: bool = Field(description="False if it was stored before.")
    correlation_id: str


class EventResult(BaseModel):
    status: int = Field(description="What the event alone would have been answered with: 201, 200, 403, 409, 413, 422.")
    uid: UUID | None = None
    correlation_id: str | None = None
    problem: ProblemDocument | None = None


class EventResults(BaseModel):
    results: list[EventResult] = Field(description="One for each event, in order.")


class EventOut(BaseModel):
    uid: UUID
    event_type: str
    source: str
    external_id: str | None
    correlation_id: str
    created_at: datetime
    payload: Any
    deliveries: list[Delivery] = Field(description="The newest; `deliveries_next` says that there are more.")
    deliveries_next: str | None = Field(None, description="A cursor for /deliveries?event=<uid>.")
