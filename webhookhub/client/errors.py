"""What can go wrong between a producer and the hub, each by a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class FieldError(NamedTuple):
    field: str
    message: str


class HubError(Exception):
    """Any of the below. `status` is that of the hub's answer, None if there was none; `external_id` tells which event
    it was, so that it can be sent again under the same id."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        errors: Sequence[FieldError] = (),
        external_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.errors = tuple(errors)
        self.external_id = external_id


class Unauthorized(HubError):
    """The key is missing, wrong, expired or revoked (401)."""


class Forbidden(HubError):
    """The key may not do this, or the event type is the hub's own (403)."""


class Conflict(HubError):
    """The external id stands for another event already (409); `uid` is that event's."""

    uid: str | None = None


class TooLarge(HubError):
    """The event is longer than the hub accepts (413)."""


class Invalid(HubError):
    """The event is not acceptable (422); `errors` name the fields and say what would be right."""


class RateLimited(HubError):
    """More events than the key may send (429), and no time left to wait; `retry_after` is in seconds."""

    retry_after: float | None = None


class Unavailable(HubError):
    """The hub could not be reached, or could not answer, in the time given. The event may be stored all the same: send
    it again with its `external_id`, and it is stored once."""


class UnexpectedAnswer(HubError):
    """What answered is not a hub, or not one that this client knows."""
