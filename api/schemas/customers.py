from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from api.pagination import PageRequest
from subscriptions.customers import NAME_LENGTH
from webhookhub.validators import REASON_LENGTH

from .common import Body, FromRow


class CustomerFilters(PageRequest):
    disabled: bool | None = None


class CustomerIn(Body):
    name: str | None = Field(None, max_length=NAME_LENGTH, description="Omitted or null: an existing name is kept.")


class CustomerOut(FromRow):
    uid: UUID
    key: str = Field(validation_alias="customer_key", description="Your own key of the customer.")
    name: str
    disabled_at: datetime | None = Field(description="While it is set, the customer's subscriptions get nothing.")
    created_at: datetime
    updated_at: datetime


class Customers(BaseModel):
    items: list[CustomerOut]
    next: str | None


class SwitchIn(Body):
    reason: str = Field(min_length=1, max_length=REASON_LENGTH, description="Saved in the audit log.")
