from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import AliasPath, BaseModel, Field

from api.pagination import PageRequest
from deadletters.bulk_requeue import MAX_COUNTED, MAX_LIMIT
from webhookhub.validators import REASON_LENGTH

from .common import (
    MISSING_EVENT,
    Body,
    CustomerKey,
    CustomerOrNone,
    ErrorCode,
    EventType,
    FromRow,
    Id,
    Timestamp,
    WithPayload,
)

ALLOW_WAITING = "Requeue even if a subscription is paused or not verified: the new delivery waits."


class Conditions(BaseModel):
    error_code: ErrorCode | None = None
    subscription: Id | None = None
    event_type: EventType | None = None
    customer: CustomerKey | None = None
    since: Timestamp | None = Field(None, description="Failed at this time or later, such as 2026-01-31T00:00:00Z.")
    until: Timestamp | None = Field(None, description="Failed at this time or earlier.")

    @property
    def conditions(self) -> dict[str, Any]:
        return self.model_dump(include=set(Conditions.model_fields), exclude_none=True)


class DeadLetterFilters(Conditions, PageRequest):
    pass


class DeadLetterOut(FromRow):
    id: int
    delivery: int = Field(validation_alias="saga_id")
    event: UUID | None = Field(None, validation_alias=AliasPath("event", "uid"), description=MISSING_EVENT)
    event_type: str | None = Field(None, validation_alias=AliasPath("event", "event_type"))
    correlation_id: str | None = Field(None, validation_alias=AliasPath("event", "correlation_id"))
    customer: CustomerOrNone = None
    subscription: int = Field(validation_alias="subscription_id")
    error_code: str = Field(validation_alias="final_error_code")
    failed_at: datetime | None = Field(description="Null if the database holds no valid time.")
    # A dead letter that was not requeued has no attribute `requeue`.
    requeued_by: str | None = Field(None, validation_alias=AliasPath("requeue", "requested_by"))
    requeued_at: datetime | None = Field(None, validation_alias=AliasPath("requeue", "requested_at"))
    requeue_reason: str | None = Field(None, validation_alias=AliasPath("requeue", "reason"))


class DeadLetters(BaseModel):
    items: list[DeadLetterOut]
    next: str | None = Field(description="The cursor of the next page; null at the end.")


class DeadLetterWithPayload(DeadLetterOut, WithPayload):
    pass


class RequeueIn(Body):
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="Saved with the dead letter.")
    allow_waiting: bool = Field(False, description=ALLOW_WAITING)


class RequeueOut(FromRow):
    dead_letter: int = Field(validation_alias="dead_letter_id")
    delivery: int = Field(validation_alias="saga_id", description="The new delivery.")
    created: bool = Field(description="False if it was requeued before.")
    requested_by: str


class BulkRequeueIn(Conditions, Body):
    reason: str | None = Field(None, max_length=REASON_LENGTH, description="Required unless dry_run.")
    limit: int = Field(1000, ge=1, le=MAX_LIMIT, description="The maximum number to requeue.")
    dry_run: bool = Field(False, description="Only count what would be requeued.")
    allow_waiting: bool = Field(False, description=ALLOW_WAITING)
    cursor: str | None = Field(None, max_length=1000, description="`next` of the previous response.")


class BulkRequeueOut(BaseModel):
    dry_run: bool
    count: int = Field(description=f"Requeued; with dry_run the number that would be, up to {MAX_COUNTED}.")
    not_ended: int = Field(description="Skipped, because their deliveries have not ended yet; try again in a minute.")
    more: bool = Field(description="There may be more.")
    next: str | None = Field(None, description="The cursor to continue with, if there are more.")
    sample: list[DeadLetterOut] = Field([], description="With dry_run: the first ones.")
