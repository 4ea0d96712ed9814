from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from api.pagination import PageRequest
from events.backfill import MAX_EVENTS
from events.filter_preview import MAX_EVENTS as MAX_PREVIEWED
from events.filter_preview import SHOWN
from subscriptions.client_certificates import MAX_CERTIFICATE_LENGTH, MAX_KEY_LENGTH
from subscriptions.filters import MAX_CONDITIONS
from subscriptions.oauth2 import MAX_LENGTHS
from webhookhub.db.fields import MAX_SECONDS, MAX_SECONDS_LIST
from webhookhub.validators import REASON_LENGTH

from .common import Body, CustomerKey, EventPattern, Timestamp

Scheme = Literal["v1", "v1a"]
CallbackUrl = Annotated[str, Field(min_length=1, max_length=500, description="An https URL.")]
Headers = Annotated[
    dict[str, str], Field(max_length=20, description="Sent with each delivery. Only the names are shown.")
]
Description = Annotated[str, Field(max_length=200)]
Limit = Annotated[int, Field(ge=1, le=1000, description="Number of attempts, the first included. null: default.")]
Delay = Annotated[
    float, Field(ge=0.001, le=86400, description="Seconds until the first retry; then doubles. null: default.")
]
RetryDelays = Annotated[
    list[Annotated[int, Field(ge=1, le=MAX_SECONDS)]],
    Field(
        min_length=1,
        max_length=MAX_SECONDS_LIST,
        description="Seconds after each failed attempt, instead of max_retry_limit and base_delay: one attempt more "
        "than delays. null: max_retry_limit and base_delay apply.",
    ),
]

RateLimit = Annotated[
    int,
    Field(
        ge=1,
        le=10_000,
        description="Deliveries per second, retries included. Of the subscriptions with the same callback_url, the "
        "lowest limit holds. null: no limit.",
    ),
]


LabelFilter = Annotated[
    list[dict[str, Any]],
    Field(
        max_length=MAX_CONDITIONS,
        description="Conditions on the labels of events, all of which must hold: equals, one_of, prefix, exists, not. "
        "null: all events of the type.",
        examples=[[{"label": "region", "one_of": ["eu", "us"]}, {"not": {"label": "test", "exists": True}}]],
    ),
]


class SubscriptionFilters(PageRequest):
    event_type: EventPattern | None = None
    active: bool | None = None
    customer: CustomerKey | None = None


class SubscriptionIn(Body):
    customer: CustomerKey | None = Field(
        None, description="The key of the customer whose events it gets. null: the events of all customers."
    )
    event_type: EventPattern
    callback_url: CallbackUrl
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
    label_filter: LabelFilter | None = None
    headers: Headers = {}


class SubscriptionChange(Body):
    """Omitted fields keep their values. A new callback_url must be verified."""

    event_type: EventPattern | None = None
    callback_url: CallbackUrl | None = None
    active: bool | None = Field(None, description="If false: no new deliveries; open deliveries wait.")
    description: Description | None = None
    max_retry_limit: Limit | None = None
    base_delay: Delay | None = None
    retry_delays: RetryDelays | None = None
    rate_limit: RateLimit | None = None
    label_filter: LabelFilter | None = None
    headers: Headers | None = Field(None, description="Replaces all headers; {} removes them.")


class ClientCertificateOut(BaseModel):
    """The private key and the certificate itself are not shown."""

    subject: str
    issuer: str
    expires_at: datetime
    expires_soon: bool = Field(description="Whether it expires within 30 days, or has expired.")
    fingerprint: str = Field(description="SHA-256.")


class ClientCertificateIn(Body):
    certificate: str = Field(
        min_length=1,
        max_length=MAX_CERTIFICATE_LENGTH,
        description="In PEM form, followed by the certificates of its issuers.",
    )
    private_key: str = Field(
        min_length=1, max_length=MAX_KEY_LENGTH, description="In PEM form, not encrypted. It is not shown again."
    )


class OAuth2ClientIn(Body):
    token_url: str = Field(min_length=1, max_length=500, description="The same rules as for callback_url hold.")
    client_id: str = Field(min_length=1, max_length=MAX_LENGTHS["client_id"])
    client_secret: str = Field(min_length=1, max_length=MAX_LENGTHS["client_secret"], description="Not shown again.")
    scope: str = Field("", max_length=MAX_LENGTHS["scope"])
    audience: str = Field("", max_length=MAX_LENGTHS["audience"])
    authentication: Literal["basic", "post"] = Field(
        "basic", description="Whether id and secret are sent in the header or in the body of the token request."
    )


class OAuth2ClientOut(BaseModel):
    """The secret is not shown."""

    token_url: str = Field(description="The query's values are ***.")
    client_id: str
    scope: str
    audience: str
    authentication: str


class SubscriptionOut(BaseModel):
    id: int
    customer: str | None = Field(description="The customer's key.")
    event_type: str
    callback_url: str = Field(description="Without the scope subscriptions:write, the query's values are ***.")
    active: bool
    verified: bool
    verification_result: str
    verification_at: datetime | None
    disabled_at: datetime | None = Field(
        description="When the endpoint was disabled, because it responded with 410 or failed for too long."
    )
    disabled_reason: str | None
    customer_disabled_at: datetime | None = Field(description="When the customer was disabled.")
    signing_scheme: Scheme
    previous_secret_until: datetime | None = Field(description="Until then, the previous secret signs, too.")
    description: str
    max_retry_limit: int | None
    base_delay: float | None
    retry_delays: list[int] | None
    rate_limit: int | None
    label_filter: list[dict[str, Any]] | None
    header_names: list[str]
    client_certificate: ClientCertificateOut | None
    oauth2_client: OAuth2ClientOut | None
    created_at: datetime
    updated_at: datetime


class Subscriptions(BaseModel):
    items: list[SubscriptionOut]
    next: str | None


class SubscriptionWithSecret(SubscriptionOut):
    secret: str = Field(description="The endpoint checks signatures with it. It is not shown again.")


class RotateIn(Body):
    signing_scheme: Scheme | None = None
    force: bool = Field(False, description="Rotate even while the previous secret is still valid; it is dropped.")


class VerificationOut(BaseModel):
    verified: bool = Field(description="Whether the subscription is verified, by this or an earlier challenge.")
    proved: bool = Field(description="Whether the endpoint has passed this challenge.")
    reason: str


class EnableIn(Body):
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="Saved in the audit log.")


class TestOut(BaseModel):
    webhook_id: str
    delivered: bool
    response_status: int | None
    error_code: str | None
    duration_ms: int
    response_snippet: str


class BackfillIn(Body):
    since: Timestamp = Field(description="Events stored at or after this time, such as 2026-01-31T00:00:00Z.")
    until: Timestamp | None = Field(None, description="Events stored at or before this time. null: now.")
    limit: int = Field(MAX_EVENTS, ge=1, le=MAX_EVENTS, description="The maximum number of events to examine.")
    cursor: str | None = Field(None, max_length=1000, description="The `next` of the previous response.")


class BackfillOut(BaseModel):
    examined: int = Field(description="The number of events examined.")
    created: int = Field(description="The number of deliveries created.")
    next: str | None = Field(description="The cursor for the next request; null when all events have been examined.")


class PreviewIn(Body):
    event_type: EventPattern
    label_filter: LabelFilter | None = None


class PreviewedEvent(BaseModel):
    uid: UUID
    created_at: datetime | None
    labels: dict[str, str]


class PreviewOut(BaseModel):
    examined: int = Field(description=f"The number of events examined: the newest {MAX_PREVIEWED} of the type.")
    accepted: int = Field(description="How many of them the filter accepts.")
    events: list[PreviewedEvent] = Field(description=f"The newest {SHOWN} of the accepted ones.")
