from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from api.pagination import PageRequest
from events.backfill import MAX_EVENTS

from .common import Body, EventType, Moment

Scheme = Literal["v1", "v1a"]
CallbackUrl = Annotated[str, Field(min_length=1, max_length=500, description="An https address.")]
Headers = Annotated[
    dict[str, str], Field(max_length=20, description="Sent with each delivery; stored encrypted, not shown again.")
]
Description = Annotated[str, Field(max_length=200)]
Limit = Annotated[int, Field(ge=1, le=1000, description="Attempts, the first included. None: the hub's default.")]
Delay = Annotated[
    float, Field(ge=0.001, le=86400, description="Seconds after the first failure; doubles. None: the hub's default.")
]


class SubscriptionFilters(PageRequest):
    event_type: EventType | None = None
    active: bool | None = None


class SubscriptionIn(Body):
    event_type: EventType
    callback_url: CallbackUrl
    active: bool = True
    description: Description = ""
    signing_scheme: Scheme = "v1"
    max_retry_limit: Limit | None = None
    base_delay: Delay | None = None
    headers: Headers = {}


class SubscriptionChange(Body):
    """What is left out stays as it is. Another callback_url has to be verified anew."""

    event_type: EventType | None = None
    callback_url: CallbackUrl | None = None
    active: bool | None = Field(None, description="False switches it off: it gets no new deliveries, open ones wait.")
    description: Description | None = None
    max_retry_limit: Limit | None = None
    base_delay: Delay | None = None
    headers: Headers | None = Field(None, description="Replaces all; {} removes them.")


class SubscriptionOut(BaseModel):
    id: int
    event_type: str
    callback_url: str = Field(description="Values in its query are *** for keys without the scope subscriptions:write.")
    active: bool
    verified: bool
    verification_result: str
    verification_at: datetime | None
    signing_scheme: Scheme
    previous_secret_until: datetime | None = Field(
        description="Until when the secret before the present one signs too."
    )
    description: str
    max_retry_limit: int | None
    base_delay: float | None
    header_names: list[str]
    created_at: datetime
    updated_at: datetime


class Subscriptions(BaseModel):
    items: list[SubscriptionOut]
    next: str | None


class SubscriptionWithSecret(SubscriptionOut):
    secret: str = Field(description="What the receiver needs to check signatures. Shown this once.")


class RotateIn(Body):
    signing_scheme: Scheme | None = None
    force: bool = Field(False, description="End the overlap of an earlier rotation that is still running.")


class VerificationOut(BaseModel):
    verified: bool = Field(description="Whether the subscription is verified now, by this or an earlier proof.")
    proved: bool = Field(description="Whether the endpoint has sent the challenge back just now.")
    reason: str


class TrialOut(BaseModel):
    webhook_id: str
    delivered: bool
    response_status: int | None
    error_code: str | None
    duration_ms: int
    response_snippet: str


class BackfillIn(Body):
    since: Moment = Field(description="Events stored at or after this time, such as 2026-01-31T00:00:00Z.")
    until: Moment | None = Field(None, description="Events stored at or before this time. None: now.")
    limit: int = Field(MAX_EVENTS, ge=1, le=MAX_EVENTS, description="How many events to look at, at most.")
    cursor: str | None = Field(None, max_length=1000, description="`next` of the answer before, to go on from there.")


class BackfillOut(BaseModel):
    examined: int = Field(description="Events looked at.")
    created: int = Field(description="Deliveries that were missing and are under way now.")
    next: str | None = Field(description="The cursor to go on with; None when all events have been looked at.")
