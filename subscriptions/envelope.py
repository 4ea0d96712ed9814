"""What every request to an endpoint has in common: who sends it, which message it is, and the signature."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from webhookhub import __version__, cipher
from webhookhub.conf import hub
from webhookhub.egress import errors
from webhookhub.egress.messages import Request

from . import headers
from .signing import BadSecret, Signer, signer

ALWAYS = ["Content-Type: application/json", f"User-Agent: WebhookHub/{__version__}"]


class Endpoint(NamedTuple):
    """Where to send, and what a subscription keeps (encrypted) for it. The fields are the subscription's columns."""

    callback_url: str
    secret: str
    previous_secret: str
    previous_secret_until: datetime | None
    custom_headers: str


class Unsendable(Exception):
    """What is stored for this endpoint does not make a request; `error_code` is the attempt's."""

    def __init__(self, error_code: str) -> None:
        super().__init__(errors.in_words(error_code))
        self.error_code = error_code


def seal(endpoint: Endpoint, message_id: str, body: bytes, sent_at: datetime, *more_headers: str) -> Request:
    """A signed request, or Unsendable."""
    stationery = _stationery(endpoint, hub().encryption_keys)
    timestamp = int(sent_at.timestamp())
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signature = stationery.sign(content)
    # The secret that was replaced signs too, for as long as receivers may still know only that one.
    if endpoint.previous_secret_until is not None and sent_at < endpoint.previous_secret_until:
        signature += " " + stationery.sign_as_before(content)
    lines = [
        f"webhook-id: {message_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {signature}",
        *more_headers,
        *stationery.headers,
    ]
    return Request(endpoint.callback_url, lines, body)


class _Stationery(NamedTuple):
    """What can be prepared for an endpoint before there is anything to send to it."""

    headers: list[str]
    sign: Signer
    sign_as_before: Signer


# Opened and prepared once: a worker sends thousands of requests to the same endpoint.
@lru_cache(maxsize=2000)
def _stationery(endpoint: Endpoint, keys: tuple[str, ...]) -> _Stationery:
    try:
        custom = headers.parse(cipher.decrypt(endpoint.custom_headers)) if endpoint.custom_headers else []
        sign = signer(cipher.decrypt(endpoint.secret))
        before = signer(cipher.decrypt(endpoint.previous_secret)) if endpoint.previous_secret else sign
    except (cipher.Undecipherable, BadSecret):
        raise Unsendable(errors.SIGNING_ERROR) from None
    except headers.UnacceptableHeaders:  # stored under rules that were wider once
        raise Unsendable(errors.INVALID_REQUEST) from None
    return _Stationery([*ALWAYS, *custom], sign, before)
