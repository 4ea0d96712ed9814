from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from api.pagination import PageRequest

from .common import EventType, Id, Name, Timestamp

Status = Literal["Pending", "InProgress", "PendingRetry", "Completed", "DeadLettered"]


class DeliveryFilters(PageRequest):
    status: Status | None = None
    event_type: EventType | None = None
    subscription: Id | None = None
    event: UUID | None = Field(None, description="The event's uid.")
    correlation_id: Name | None = None
    since: Timestamp | None = Field(None, description="Created at or after this time, such as 2026-01-31T00:00:00Z.")
    until: Timestamp | None = Field(None, description="Created at or before this time.")


class Delivery(BaseModel):
    id: int
    status: Status
    event: UUID
    event_type: str
    correlation_id: str
    subscription: int
    generation: int = Field(description="0 for the original delivery; each requeue adds 1.")
    attempt_count: int
    max_retry_limit: int
    next_attempt_at: datetime | None = Field(description="Set while the delivery waits for its next attempt.")
    error_code: str | None = Field(description="The error of the last failed attempt; kept after a success.")
    created_at: datetime
    updated_at: datetime


class Deliveries(BaseModel):
    items: list[Delivery]
    next: str | None = Field(description="The cursor of the next page. Even a short or empty page may have one.")


class Attempt(BaseModel):
    attempt_no: int
    status: Literal["Pending", "Leased", "Completed", "Failed"]
    attempt_at: datetime
    finished_at: datetime | None
    duration_ms: int | None
    response_status: int | None
    error_code: str | None
    response_snippet: str | None = Field(description="The beginning of the response body; null for keys with a source.")


class DeliveryWithAttempts(Delivery):
    attempts: list[Attempt]
    dead_letter: int | None
