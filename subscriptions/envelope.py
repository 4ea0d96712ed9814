"""What every request to an endpoint has in common: who sends it, which message it is, and the signature."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from webhookhub import __version__, cipher
from webhookhub.egress import errors
from webhookhub.egress.curl import Request

from . import headers
from .signing import BadSecret, signature

ALWAYS = ("Content-Type: application/json", f"User-Agent: WebhookHub/{__version__}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to send, and what a subscription keeps (encrypted) for it. The fields are the subscription's columns."""

    callback_url: str
    secret: str
    previous_secret: str
    previous_secret_until: datetime | None
    custom_headers: str

    def secrets_in_force(self, now: datetime) -> list[str]:
        """The secret, and the one it has replaced for as long as receivers may still know only that."""
        tokens = [self.secret]
        if self.previous_secret_until is not None and now < self.previous_secret_until:
            tokens.append(self.previous_secret)
        return [cipher.decrypt(token) for token in tokens]


ENDPOINT_COLUMNS = ("callback_url", "secret", "previous_secret", "previous_secret_until", "custom_headers")


class Unsendable(Exception):
    """What is stored for this endpoint does not make a request; `error_code` is the attempt's."""

    def __init__(self, error_code: str) -> None:
        super().__init__(errors.in_words(error_code))
        self.error_code = error_code


def seal(endpoint: Endpoint, message_id: str, body: bytes, sent_at: datetime, *more_headers: str) -> Request:
    """A signed request, or Unsendable."""
    timestamp = int(sent_at.timestamp())
    try:
        signatures = signature(endpoint.secrets_in_force(sent_at), message_id, timestamp, body)
        custom = headers.parse(cipher.decrypt(endpoint.custom_headers)) if endpoint.custom_headers else ()
    except (cipher.Undecipherable, BadSecret):
        raise Unsendable(errors.SIGNING_ERROR) from None
    except headers.UnacceptableHeaders:  # stored under rules that were wider once
        raise Unsendable(errors.INVALID_REQUEST) from None
    lines = [
        *ALWAYS,
        f"webhook-id: {message_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {signatures}",
        *more_headers,
        *custom,
    ]
    return Request(endpoint.callback_url, lines, body)
