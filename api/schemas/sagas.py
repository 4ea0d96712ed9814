from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from api.pagination import MOST_LISTED, PageRequest
from webhookhub.validators import REASON_LENGTH
from workflows.facts import MOST_REPEATS

from .common import Body, Moment, Name, Number

SagaStatus = Literal["IN_PROGRESS", "COMPLETED", "COMPENSATING", "COMPENSATED", "FAILED"]
SagaType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,29}$", examples=["order_submission"])]
Step = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,27}$", examples=["payment"])]
Key = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description="Told again under this key it is stored once; the same thing under more than "
        f"{MOST_REPEATS} keys is refused with 409.",
    ),
]
Reason = Annotated[
    str, Field(min_length=1, max_length=REASON_LENGTH, description="Kept with the workflow, and with your name.")
]
LONGEST_QUIET = 366 * 86400


class SagaFilters(PageRequest):
    saga_type: SagaType | None = None
    status: SagaStatus | None = None
    step: Step | None = Field(None, description="The step that it is at; needs saga_type.")
    needs_operator: bool = Field(False, description="True: only those that wait for a person.")
    since: Moment | None = Field(None, description="Begun then or later, such as 2026-01-31T00:00:00Z.")
    until: Moment | None = Field(None, description="Begun then or earlier.")


class StuckFilters(PageRequest):
    quiet_seconds: int = Field(60, ge=0, le=LONGEST_QUIET, description="How long nothing has happened in it, at least.")


class SagaOut(BaseModel):
    id: UUID
    saga_type: str
    version: int = Field(description="Of the definition that it was born with.")
    correlation_key: str
    aggregate_id: str | None
    current_step: str
    status: SagaStatus
    steps: dict[str, str] = Field(description="How far each step is, such as done or compensated.")
    started_at: datetime
    completed_at: datetime | None
    deadline: datetime | None = Field(description="When it, or the step that it is at, will have timed out.")
    error_message: str | None
    compensation_started_at: datetime | None
    anomaly: str | None = Field(description="What does not fit: a payment that succeeded after the end, for one.")
    needs_operator: bool = Field(description="Something is left that only a person can put right.")
    by_hand: bool = Field(description="A person has had a hand in it.")
    updated_at: datetime


class Sagas(BaseModel):
    items: list[SagaOut]
    next: str | None = Field(description="The cursor of the next page; a page may be short and still have one.")


class SagaDelivery(BaseModel):
    id: int
    event_type: str
    subscription: int
    receiver: str = Field(description="The subscription's description, or its address.")
    status: str
    attempt_count: int
    error_code: str | None


class ObstacleOut(BaseModel):
    step: str
    state: str
    summary: str = Field(description="Such as: stuck at payment: inventory.reserved → payment service, 5 attempts …")
    deliveries: list[SagaDelivery] = Field(description="Of what the step reacts to: those that have not arrived.")


class StuckSaga(SagaOut):
    waits_for: list[ObstacleOut]


class StuckSagas(BaseModel):
    items: list[StuckSaga]
    next: str | None


class FactOut(BaseModel):
    id: int
    step: str | None = Field(description="None: it is said of the workflow as a whole.")
    role: str = Field(description="What it says: done, failed, compensated, emitted, …")
    origin: Literal["event", "verb", "operator", "hub"]
    occurred_at: datetime
    recorded_at: datetime
    actor: str | None
    reason: str | None
    detail: str | None
    event: UUID | None
    event_type: str | None
    deliveries: list[SagaDelivery] = Field(description="What became of that event: the latest to each subscription.")


class TimelineRequest(PageRequest):
    limit: int = Field(MOST_LISTED, ge=1, le=MOST_LISTED, description="How many at most.")


class TimelineOut(BaseModel):
    items: list[FactOut] = Field(description="In the order in which things happened.")
    next: str | None = Field(description="The cursor of the next page.")


class Told(Body):
    idempotency_key: Key = None


class StartIn(Told):
    saga_type: SagaType
    correlation_id: Name = Field(description="What ties its events together: there is one workflow for each.")
    aggregate_id: Name | None = Field(None, description="What it is about, such as the order's number.")


class StepIn(Told):
    step: Step


class FailIn(Told):
    step: Step | None = Field(None, description="None: the workflow as a whole has failed.")
    error: str = Field("", max_length=500, description="Why.")


class UndoFailedIn(StepIn):
    error: str = Field("", max_length=500, description="Why.")


class UndoneIn(Told):
    step: Step | None = Field(None, description="None: all that was done is undone.")


class ToldOut(BaseModel):
    saga: UUID
    fact: int
    created: bool = Field(description="False if it was told before.")


class CloseIn(Told):
    reason: Reason


class MarkIn(CloseIn):
    step: Step | None = Field(None, description="None: all that was done is undone.")


class RetryIn(CloseIn):
    step: Step
    delivery: Number | None = Field(
        None, description="One delivery of the workflow's events. None: the dead ones of what the step reacts to."
    )


class RetryOut(ToldOut):
    deliveries: list[int] = Field(description="The new deliveries.")
