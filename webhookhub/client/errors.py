"""The errors of the client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class FieldError(NamedTuple):
    field: str
    message: str


class HubError(Exception):
    """The base class. `status` is the HTTP status, None without a response; `external_id` is that of the event, so that
    it can be sent again under the same id."""

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
    """The key lacks the scope, or the event type is reserved (403)."""


class Conflict(HubError):
    """The external id belongs to another event (409), whose uid is `uid`."""

    uid: str | None = None


class TooLarge(HubError):
    """The event is too large (413)."""


class Invalid(HubError):
    """The event is invalid (422); `errors` lists the fields."""


class RateLimited(HubError):
    """The key's rate limit is exceeded (429), with no time left to wait; `retry_after` is in seconds."""

    retry_after: float | None = None


class Unavailable(HubError):
    """The hub did not respond in time. The event may be stored: send it again with the same `external_id`, and it is
    stored once."""


class UnexpectedResponse(HubError):
    """The response is not one of a hub."""
