from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from sagas.requests import MAX_COUNTED
from webhookhub.validators import REASON_LENGTH

from .common import Body, CustomerKey, EventType, Id, Timestamp

DRY_RUN = "Only count the deliveries."


class RequestIn(Body):
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="Saved with the request.")


class EndpointRequestIn(Body):
    reason: str | None = Field(None, max_length=REASON_LENGTH, description="Required unless dry_run.")
    whole_endpoint: bool = Field(
        False,
        description="Include the deliveries of all subscriptions of the same customer with the same callback URL.",
    )
    dry_run: bool = Field(False, description=DRY_RUN)


class AbandonIn(Body):
    """At least one condition is required."""

    status: Literal["Pending", "InProgress", "PendingRetry"] | None = None
    event_type: EventType | None = None
    subscription: Id | None = None
    customer: CustomerKey | None = None
    since: Timestamp | None = Field(None, description="Created at or after this time, such as 2026-01-31T00:00:00Z.")
    until: Timestamp | None = Field(None, description="Created at or before this time.")
    reason: str | None = Field(None, max_length=REASON_LENGTH, description="Required unless dry_run.")
    dry_run: bool = Field(False, description=DRY_RUN)


class RequestPreview(BaseModel):
    waiting: int = Field(description=f"Deliveries that wait, up to {MAX_COUNTED}.")
    in_progress: int = Field(description="Deliveries with an attempt in progress.")
    more: bool = Field(description="There may be more.")


class RequestOut(BaseModel):
    uid: UUID
    kind: Literal["send_now", "abandon", "send_again"]
    delivery: int | None = Field(description="The delivery; null for a request by filter.")
    filter: dict[str, Any] = Field(description="The conditions of a request by filter.")
    requested_by: str
    requested_at: datetime
    reason: str
    applied_at: datetime | None = Field(description="Null while the hub applies the request.")
    changed: int = Field(description="The number of deliveries that were changed so far.")
    new_delivery: int | None = Field(description="The delivery that follows one that was sent again.")
