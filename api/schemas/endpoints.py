from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from webhookhub.stats.endpoints import LIMIT


class EndpointOut(BaseModel):
    """A callback URL and all of its subscriptions."""

    url: str = Field(description="Without its query.")
    subscription: int = Field(description="The lowest id of a subscription with this URL.")
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


class Endpoints(BaseModel):
    items: list[EndpointOut]
