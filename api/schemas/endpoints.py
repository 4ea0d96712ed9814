"""Schemas of endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field

from api.pagination import PageRequest
from subscriptions.endpoint_services import MAX_EVENT_TYPES
from webhookhub.stats.endpoints import LIMIT
from webhookhub.validators import REASON_LENGTH

from .common import Body, CustomerKey, EventPattern
from .subscriptions import (
    CallbackUrl,
    ClientCertificateOut,
    Delay,
    Description,
    Headers,
    Limit,
    OAuth2ClientOut,
    RateLimit,
    RetryDelays,
    Scheme,
)

EventTypes = Annotated[
    list[EventPattern], Field(max_length=MAX_EVENT_TYPES, description="Event types and patterns that it gets.")
]


class EndpointFilters(PageRequest):
    customer: CustomerKey | None = None
    active: bool | None = None


class EndpointIn(Body):
    customer: CustomerKey | None = Field(None, description="The owner's key. null: the operator's own endpoint.")
    callback_url: CallbackUrl
    event_types: EventTypes
    active: bool = True
    description: Description = ""
    signing_scheme: Scheme = "v1"
    secret: str | None = Field(
        None, max_length=100, description="A secret whsec_… that the receiver knows already. null: a new one is made."
    )
    max_retry_limit: Limit | None = None
    base_delay: Delay | None = None
    retry_delays: RetryDelays | None = None
    rate_limit: RateLimit | None = None
    headers: Headers = {}


class EndpointChange(Body):
    """Omitted fields keep their values. A new callback_url must be verified."""

    callback_url: CallbackUrl | None = None
    event_types: EventTypes | None = Field(None, description="Replaces all; the others are removed.")
    active: bool | None = Field(None, description="If false: no new deliveries; open deliveries wait.")
    description: Description | None = None
    max_retry_limit: Limit | None = None
    base_delay: Delay | None = None
    retry_delays: RetryDelays | None = None
    rate_limit: RateLimit | None = None
    headers: Headers | None = Field(None, description="Replaces all headers; {} removes them.")


class VouchIn(Body):
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="Saved in the audit log.")


class EndpointSubscription(BaseModel):
    id: int
    event_type: str
    has_filter: bool = Field(description="Whether only events with certain labels go to it.")


class EndpointOut(BaseModel):
    uid: UUID
    customer: str | None = Field(description="The owner's key.")
    callback_url: str = Field(description="Without the scope subscriptions:write, the query's values are ***.")
    event_types: list[str]
    subscriptions: list[EndpointSubscription]
    active: bool
    verified: bool
    verification_result: str
    verification_at: datetime | None
    vouched_by: str | None = Field(description="Who has vouched for it, if it was not verified by a challenge.")
    vouch_reason: str | None
    disabled_at: datetime | None = Field(
        description="When it was disabled, because it responded with 410 or failed for too long."
    )
    disabled_reason: str | None
    signing_scheme: Scheme
    previous_secret_until: datetime | None = Field(description="Until then, the previous secret signs, too.")
    description: str
    max_retry_limit: int | None
    base_delay: float | None
    retry_delays: list[int] | None
    rate_limit: int | None
    header_names: list[str]
    client_certificate: ClientCertificateOut | None
    oauth2_client: OAuth2ClientOut | None
    created_at: datetime
    updated_at: datetime


class EndpointWithSecret(EndpointOut):
    secret: str = Field(description="The endpoint checks signatures with it. It is not shown again.")


class EndpointList(BaseModel):
    items: list[EndpointOut]
    next: str | None


class EndpointDeleted(BaseModel):
    uid: UUID
    deleted_at: datetime


class EndpointState(BaseModel):
    """What is open at an endpoint, what waits for it, and how it responds: of all of its subscriptions."""

    url: str = Field(description="Without its query.")
    subscription: int = Field(description="The lowest id of its subscriptions.")
    open: int = Field(description="Attempts that are being sent or ready to be sent.")
    waiting: int = Field(description=f"Deliveries that wait for the endpoint, counted up to {LIMIT}.")
    oldest_waiting_at: datetime | None = Field(description="When the oldest waiting delivery was created.")
    attempts_per_second: float = Field(description="Over the last five minutes.")
    success_rate: float | None = Field(description="The share of the last hour's attempts that succeeded.")
    p95_ms: float | None = Field(description="95th percentile of the durations of the last hour.")
    failing_since: datetime | None = Field(description="The first failure since the last success, if it lasts.")
    last_error_code: str | None
    breaker_open_since: datetime | None = Field(description="Since when the endpoint is only probed.")
    disabled_at: datetime | None


class WorstEndpoints(BaseModel):
    items: list[EndpointState]
