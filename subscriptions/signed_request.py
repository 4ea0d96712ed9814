"""What every request to an endpoint has in common: who sends it, which message it is, and the signature."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from webhookhub import __version__, crypto
from webhookhub.conf import hub
from webhookhub.egress import errors
from webhookhub.egress.messages import Request, snippet
from webhookhub.egress.urls import query_values

from . import headers, redaction
from .signing import BadSecret, Signer, signer

SHORTEST_QUERIED = 8
# Bytes of an answer that are looked at for what must not be kept: more than is kept, and than a header's value takes.
LOOKED_AT = 8 * 1024
BASE64_IN_ADDRESSES = str.maketrans("+/", "-_")
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


def seal(endpoint: Endpoint, message_id: str, body: bytes, timestamp: int, *more_headers: str) -> Request:
    """A signed request, or Unsendable. `timestamp` is the time of sending, in seconds since 1970."""
    stationery = _stationery(endpoint, hub().encryption_keys)
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signature = stationery.sign(content)
    # The secret that was replaced signs too, for as long as receivers may still know only that one.
    if endpoint.previous_secret_until is not None and timestamp < endpoint.previous_secret_until.timestamp():
        signature += " " + stationery.sign_as_before(content)
    lines = [
        f"webhook-id: {message_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {signature}",
        *more_headers,
        *stationery.headers,
    ]
    return Request(endpoint.callback_url, lines, body)


def readable(endpoint: Endpoint, body: bytes) -> str:
    """What is kept of an endpoint's answer: bounded, inert, and without the secrets it may have sent back."""
    return snippet(redact(endpoint, body[:LOOKED_AT].decode("utf-8", errors="replace")))


def redact(endpoint: Endpoint, text: str) -> str:
    """An endpoint's answer without the secrets and the values, of custom headers and of the address's query, that it
    may have sent back.

    To be called before the text is cut to what is kept. Never an error: what the keys do not open was not sent either.
    """
    return redaction.mask(text, _hidden(endpoint, hub().encryption_keys)) if text else text


class _Stationery(NamedTuple):
    """What can be prepared for an endpoint before there is anything to send to it."""

    headers: list[str]
    sign: Signer
    sign_as_before: Signer


# Opened and prepared once: a worker sends thousands of requests to the same endpoint.
@lru_cache(maxsize=2000)
def _stationery(endpoint: Endpoint, keys: tuple[str, ...]) -> _Stationery:
    try:
        custom = headers.parse(crypto.decrypt(endpoint.custom_headers)) if endpoint.custom_headers else []
        sign = signer(crypto.decrypt(endpoint.secret))
        before = signer(crypto.decrypt(endpoint.previous_secret)) if endpoint.previous_secret else sign
    except (crypto.Undecipherable, BadSecret):
        raise Unsendable(errors.SIGNING_ERROR) from None
    except headers.UnacceptableHeaders:  # stored under rules that were wider once
        raise Unsendable(errors.INVALID_REQUEST) from None
    return _Stationery([*ALWAYS, *custom], sign, before)


@lru_cache(maxsize=2000)
def _hidden(endpoint: Endpoint, keys: tuple[str, ...]) -> redaction.Hidden:
    values = headers.values(_opened(endpoint.custom_headers))
    # After the first blank stands what `Bearer` or `Basic` only introduces; an answer may repeat that alone.
    credentials = chain.from_iterable(value.split(maxsplit=1)[1:] for value in values)
    secrets = (_opened(endpoint.secret), _opened(endpoint.previous_secret))
    bare = [secret.partition("_")[2] for secret in secrets]
    # Some write Base64 without what only fills it up, and with the signs that need no escape in an address.
    unfilled = [secret.rstrip("=") for secret in bare]
    in_addresses = (secret.translate(BASE64_IN_ADDRESSES) for secret in chain(bare, unfilled))
    # A short one (`json`, `2024`) is an ordinary word, that would be missing from every answer.
    queried = (value for value in query_values(endpoint.callback_url) if len(value) >= SHORTEST_QUERIED)
    return redaction.hidden(chain(values, credentials, secrets, bare, unfilled, in_addresses, queried))


def _opened(token: str) -> str:
    try:
        return crypto.decrypt(token) if token else ""
    except (crypto.Undecipherable, ValueError):  # a key is missing; there are no keys; it is not even text
        return ""
