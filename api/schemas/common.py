"""Kinds of values that several requests take."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

LARGEST_ID = 2**63 - 1
WRITTEN = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def _moment(value: datetime) -> datetime:
    # Compared before it is converted: near the ends of the calendar another time zone does not exist.
    if not EARLIEST <= value <= LATEST:
        raise ValueError("must lie between the years 1970 and 9998")
    return value.astimezone(UTC)


def _written(value: Any) -> Any:
    # A number, or a text of digits, would be taken for seconds since 1970, which nobody means by it.
    if not isinstance(value, str) or not WRITTEN.match(value):
        raise ValueError("must be a time such as 2026-01-31T00:00:00Z")
    return value


# Not strict, for then it would have to be a datetime already; what it may be written as is said here.
Moment = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_moment), BeforeValidator(_written)]
Number = Annotated[int, Field(ge=1, le=LARGEST_ID)]
EventType = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
ErrorCode = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,100}$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Body(BaseModel):
    """What a request may carry: nothing is guessed, and a field that is misspelt is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)
