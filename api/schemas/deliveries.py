from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AliasPath, BaseModel, Field, ValidationInfo, field_validator

from api.pagination import PageRequest
from sagas.models import PARKED
from sagas.transitions import WAITING

from .common import MISSING_EVENT, CustomerKey, CustomerOrNone, EventType, FromRow, Id, Name, Timestamp

WaitingFor = Literal["paused", "unverified", "disabled", "customer_disabled", "failing", "rate_limit", "busy"]
Status = Literal["Pending", "InProgress", "PendingRetry", "Completed", "DeadLettered"]


class DeliveryFilters(PageRequest):
    status: Status | None = None
    event_type: EventType | None = None
    subscription: Id | None = None
    customer: CustomerKey | None = None
    event: UUID | None = Field(None, description="The event's uid.")
    external_id: Name | None = Field(None, description="The event's external id.")
    correlation_id: Name | None = None
    since: Timestamp | None = Field(None, description="Created at or after this time, such as 2026-01-31T00:00:00Z.")
    until: Timestamp | None = Field(None, description="Created at or before this time.")


class Delivery(FromRow):
    id: int
    status: Status
    event: UUID | None = Field(None, validation_alias=AliasPath("event", "uid"), description=MISSING_EVENT)
    event_type: str | None = Field(None, validation_alias=AliasPath("event", "event_type"))
    correlation_id: str | None = Field(None, validation_alias=AliasPath("event", "correlation_id"))
    customer: CustomerOrNone = None
    subscription: int = Field(validation_alias="subscription_id")
    generation: int = Field(description="0 for the original delivery; each requeue adds 1.")
    attempt_count: int
    max_retry_limit: int
    next_attempt_at: datetime | None = Field(
        description="Set while the delivery waits for its time; null while it waits for its endpoint."
    )
    waiting_for: WaitingFor | None = Field(
        None, description="Why the delivery waits for its endpoint, although its attempt may be due."
    )
    error_code: str | None = Field(
        validation_alias="final_error_code", description="The error of the last failed attempt; kept after a success."
    )
    created_at: datetime
    updated_at: datetime

    @field_validator("next_attempt_at")
    @classmethod
    def _only_while_waiting(cls, value: datetime | None, info: ValidationInfo) -> datetime | None:
        is_set = value is not None and value < PARKED and info.data.get("status") in WAITING
        return value if is_set else None


class Deliveries(BaseModel):
    items: list[Delivery]
    next: str | None = Field(description="The cursor of the next page. Even a short or empty page may have one.")


class Attempt(FromRow):
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
