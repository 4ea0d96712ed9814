"""Signed requests to an endpoint, and the part of its response that is kept."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from webhookhub import __version__, crypto
from webhookhub.conf import hub
from webhookhub.egress import errors
from webhookhub.egress.messages import Request, snippet
from webhookhub.egress.urls import query_values

from . import headers, redaction
from .signing import BadSecret, Signer, signer

# A shorter value of the URL's query (`json`, `2024`) is an ordinary word, not a secret.
SHORTEST_QUERY_VALUE = 8
# Bytes of a response that are searched for secrets: enough for a header value that starts where the snippet ends.
SEARCHED_BYTES = 32 * 1024
STANDARD_HEADERS = ["Content-Type: application/json", f"User-Agent: WebhookHub/{__version__}"]


class Endpoint(NamedTuple):
    """The columns of a subscription that a request is made of; secrets and headers are encrypted."""

    callback_url: str
    secret: str
    previous_secret: str
    previous_secret_until: datetime | None
    custom_headers: str


class Unsendable(Exception):
    """The stored secret or headers do not make a request; `error_code` is the attempt's."""

    def __init__(self, error_code: str) -> None:
        super().__init__(errors.describe(error_code))
        self.error_code = error_code


def sign(endpoint: Endpoint, message_id: str, body: bytes, timestamp: int, *more_headers: str) -> Request:
    """A signed request, or Unsendable. `timestamp` is the time of sending, in seconds since 1970."""
    prepared = _prepare(endpoint, hub().encryption_keys)
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signature = prepared.sign(content)
    # During the overlap of a rotation, receivers may still know only the previous secret.
    if endpoint.previous_secret_until is not None and timestamp < endpoint.previous_secret_until.timestamp():
        signature += " " + prepared.sign_with_previous(content)
    lines = [
        f"webhook-id: {message_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {signature}",
        *more_headers,
        *prepared.headers,
    ]
    return Request(endpoint.callback_url, lines, body)


def response_snippet(endpoint: Endpoint, body: bytes) -> str:
    """The start of a response: bounded, printable, and without the endpoint's secrets."""
    return snippet(redact(endpoint, body[:SEARCHED_BYTES].decode("utf-8", errors="replace")))


def redact(endpoint: Endpoint, text: str) -> str:
    """The text without the endpoint's signing secrets, header values and long query values. Never raises."""
    return redaction.mask(text, _secret_forms(endpoint, hub().encryption_keys)) if text else text


class _Prepared(NamedTuple):
    headers: list[str]
    sign: Signer
    sign_with_previous: Signer


# Decrypted once: a worker sends thousands of requests to the same endpoint.
@lru_cache(maxsize=2000)
def _prepare(endpoint: Endpoint, keys: tuple[str, ...]) -> _Prepared:
    try:
        custom = headers.parse(crypto.decrypt(endpoint.custom_headers)) if endpoint.custom_headers else []
        sign = signer(crypto.decrypt(endpoint.secret))
        previous = signer(crypto.decrypt(endpoint.previous_secret)) if endpoint.previous_secret else sign
    except (crypto.Undecipherable, BadSecret):
        raise Unsendable(errors.SIGNING_ERROR) from None
    except headers.UnacceptableHeaders:  # stored under earlier, wider rules
        raise Unsendable(errors.INVALID_REQUEST) from None
    return _Prepared([*STANDARD_HEADERS, *custom], sign, previous)


@lru_cache(maxsize=2000)
def _secret_forms(endpoint: Endpoint, keys: tuple[str, ...]) -> tuple[str, ...]:
    values = headers.values(_decrypt_or_empty(endpoint.custom_headers))
    # `Bearer x` and `Basic x`: a response may repeat x alone.
    values += [credentials for value in values for credentials in value.split(maxsplit=1)[1:]]
    for secret in (_decrypt_or_empty(endpoint.secret), _decrypt_or_empty(endpoint.previous_secret)):
        values += [secret, secret.partition("_")[2], secret.partition("_")[2].rstrip("=")]
    values += [value for value in query_values(endpoint.callback_url) if len(value) >= SHORTEST_QUERY_VALUE]
    return redaction.written_forms(values)


def _decrypt_or_empty(token: str) -> str:
    try:
        return crypto.decrypt(token) if token else ""
    except (crypto.Undecipherable, ValueError):  # a key is missing; there are no keys; it is not even text
        return ""
