from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from api.pagination import MAX_LIMIT, PageRequest
from webhookhub.validators import REASON_LENGTH
from workflows.facts import MAX_REPEATS

from .common import Body, Id, Name, Timestamp

SagaStatus = Literal["IN_PROGRESS", "COMPLETED", "COMPENSATING", "COMPENSATED", "FAILED"]
SagaType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,29}$", examples=["order_submission"])]
Step = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,27}$", examples=["payment"])]
Key = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        description="The same fact under the same key is stored once; under more than "
        f"{MAX_REPEATS} different keys it is refused with 409.",
    ),
]
Reason = Annotated[
    str, Field(min_length=1, max_length=REASON_LENGTH, description="Stored with the run, with your name.")
]
MAX_QUIET = 366 * 86400


class SagaFilters(PageRequest):
    saga_type: SagaType | None = None
    status: SagaStatus | None = None
    step: Step | None = Field(None, description="The current step; needs saga_type.")
    needs_operator: bool = Field(False, description="True: only runs that need an operator.")
    since: Timestamp | None = Field(None, description="Started then or later, such as 2026-01-31T00:00:00Z.")
    until: Timestamp | None = Field(None, description="Started then or earlier.")


class StuckFilters(PageRequest):
    quiet_seconds: int = Field(60, ge=0, le=MAX_QUIET, description="Minimum time without a change.")


class AggregateFilters(PageRequest):
    all: bool = Field(False, description="True: a list of all runs. `limit` and `cursor` need it.")


class SagaOut(BaseModel):
    id: UUID
    saga_type: str
    version: int = Field(description="The version of the definition that the run was created with.")
    correlation_key: str
    aggregate_id: str | None
    current_step: str
    status: SagaStatus
    steps: dict[str, str] = Field(description="The state of each step, such as done or compensated.")
    started_at: datetime
    completed_at: datetime | None
    deadline: datetime | None = Field(description="When the run or its current step times out.")
    error_message: str | None
    compensation_started_at: datetime | None
    anomaly: str | None = Field(description="Facts that do not fit the state, such as a success after the end.")
    needs_operator: bool = Field(description="An operator has to resolve the rest.")
    by_hand: bool = Field(description="An operator has intervened.")
    updated_at: datetime


class Sagas(BaseModel):
    items: list[SagaOut]
    next: str | None = Field(description="The cursor of the next page; a page may be short and still have one.")


class SagaDelivery(BaseModel):
    id: int
    event_type: str
    subscription: int
    endpoint: str = Field(description="The subscription's description, or its address.")
    status: str
    attempt_count: int
    error_code: str | None


class BlockerOut(BaseModel):
    step: str
    state: str
    summary: str = Field(description="Such as: stuck at payment: inventory.reserved → payment service, 5 attempts …")
    deliveries: list[SagaDelivery] = Field(description="Undelivered events that the step reacts to.")


class StuckSaga(SagaOut):
    waits_for: list[BlockerOut]


class StuckSagas(BaseModel):
    items: list[StuckSaga]
    next: str | None


class FactOut(BaseModel):
    id: int
    step: str | None = Field(description="None: the fact is about the whole run.")
    role: str = Field(description="What the fact says: done, failed, compensated, emitted, …")
    origin: Literal["event", "verb", "operator", "hub"]
    occurred_at: datetime
    recorded_at: datetime
    actor: str | None
    reason: str | None
    detail: str | None
    event: UUID | None
    event_type: str | None
    deliveries: list[SagaDelivery] = Field(description="The event's latest delivery to each subscription.")


class TimelineRequest(PageRequest):
    limit: int = Field(MAX_LIMIT, ge=1, le=MAX_LIMIT, description="How many at most.")


class TimelineOut(BaseModel):
    items: list[FactOut] = Field(description="In the order in which things happened.")
    next: str | None = Field(description="The cursor of the next page.")


class FactRequest(Body):
    idempotency_key: Key = None


class StartIn(FactRequest):
    saga_type: SagaType
    correlation_id: Name = Field(description="Common to all events of the run; there is one run for each.")
    aggregate_id: Name | None = Field(None, description="The business object, such as the order number.")


class StepIn(FactRequest):
    step: Step


class FailIn(FactRequest):
    step: Step | None = Field(None, description="None: the whole run has failed.")
    error: str = Field("", max_length=500, description="Why.")


class UndoFailedIn(StepIn):
    error: str = Field("", max_length=500, description="Why.")


class UndoneIn(FactRequest):
    step: Step | None = Field(None, description="None: everything is undone.")


class FactRecorded(BaseModel):
    saga: UUID
    fact: int
    created: bool = Field(description="False for a repetition.")


class CloseIn(FactRequest):
    reason: Reason


class MarkIn(CloseIn):
    step: Step | None = Field(None, description="None: everything is undone.")


class RetryIn(CloseIn):
    step: Step
    delivery: Id | None = Field(
        None, description="A delivery of an event of the run. None: all dead letters that the step waits for."
    )


class RetryOut(FactRecorded):
    deliveries: list[int] = Field(description="The new deliveries.")
