"""Types shared by several requests."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from events import payloads
from events.labels import MAX_LABELS
from subscriptions.filters import VALUE_LENGTH
from subscriptions.patterns import LENGTH as PATTERN_LENGTH
from subscriptions.patterns import PATTERN, normalise

LARGEST_ID = 2**63 - 1
TIME_FORMAT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def _in_range(value: datetime) -> datetime:
    # Compare before converting: near the ends of the calendar, astimezone overflows.
    if not EARLIEST <= value <= LATEST:
        raise ValueError("must be between the years 1970 and 9998")
    return value.astimezone(UTC)


def _well_formed(value: Any) -> Any:
    # pydantic would read a number, or a string of digits, as seconds since 1970.
    if not isinstance(value, str) or not TIME_FORMAT.match(value):
        raise ValueError("must be a time such as 2026-01-31T00:00:00Z")
    return value


# strict=False: a strict field accepts datetime objects only.
Timestamp = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_in_range), BeforeValidator(_well_formed)]
Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]
# For subscriptions: an event type or a pattern.
EventPattern = Annotated[
    str,
    BeforeValidator(lambda value: normalise(value) if isinstance(value, str) else value),
    Field(
        pattern=rf"^{PATTERN}$",
        max_length=PATTERN_LENGTH,
        description="One event type, `order.*` for all that begin with `order.`, or `*` for all.",
    ),
]
EventType = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
CustomerKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}$")]
ErrorCode = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,100}$")]
MISSING_EVENT = "The event's uid; null, like its type and correlation id, if the event does not exist."
Name = Annotated[str, Field(min_length=1, max_length=200)]
Label = Annotated[str, Field(pattern=r"^[a-z0-9_.-]{1,64}$")]
LabelValue = Annotated[str, Field(max_length=VALUE_LENGTH)]
Labels = Annotated[dict[Label, LabelValue], Field(max_length=MAX_LABELS)]


class Body(BaseModel):
    """A request body. Values are not coerced, and an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class WithPayload(BaseModel):
    payload: Any
    payload_text: str | None = Field(
        None, description="The stored text if it is not valid JSON; `payload` is null then. Only for events from SQL."
    )


def payload_fields(text: str) -> dict[str, Any]:
    """The fields of WithPayload for a stored payload."""
    try:
        return {"payload": payloads.stored_value(text)}
    except ValueError:
        return {"payload": None, "payload_text": text}


def _or_none(value: Any) -> Any:
    return value or None


# The key of a row's customer; the database has an empty text for none.
CustomerOrNone = Annotated[
    str | None, BeforeValidator(_or_none), Field(validation_alias="customer_key", description="The customer's key.")
]


class FromRow(BaseModel):
    """A response that is read from a model's instance, by attribute or by name."""

    model_config = ConfigDict(
        from_attributes=True, populate_by_name=True, json_schema_serialization_defaults_required=True
    )
