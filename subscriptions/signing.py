"""Signs the requests to an endpoint, as Standard Webhooks 1.0 describes.

`v1`: HMAC-SHA256 with a shared secret. `v1a`: ed25519; the endpoint needs only the public key.
The `standardwebhooks` package has no `v1a` and takes no bytes; the tests compare our `v1` with it.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from binascii import b2a_base64
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from webhookhub import __version__, crypto
from webhookhub.conf import hub
from webhookhub.egress import error_codes
from webhookhub.egress.messages import ClientCertificate, Request

from . import credentials, headers
from .credentials import OAuth2Client

SYMMETRIC = "v1"
ASYMMETRIC = "v1a"
SCHEMES = (SYMMETRIC, ASYMMETRIC)

SYMMETRIC_PREFIX = "whsec_"
PRIVATE_PREFIX = "whsk_"
PUBLIC_PREFIX = "whpk_"
KEY_BYTES = 32
# Of a shared secret that was made elsewhere, as Standard Webhooks allows.
MIN_BYTES, MAX_BYTES = 24, 64
STANDARD_HEADERS = ["Content-Type: application/json", f"User-Agent: WebhookHub/{__version__}"]

Signer = Callable[[bytes], str]


class Endpoint(NamedTuple):
    """The columns of a subscription that a request is made of; secrets, headers and credentials are encrypted."""

    callback_url: str
    secret: str
    previous_secret: str
    previous_secret_until: datetime | None
    custom_headers: str
    credentials: str | None = None


class Unsendable(Exception):
    """The stored secret or headers do not make a request; `error_code` is the attempt's."""

    def __init__(self, error_code: str) -> None:
        super().__init__(error_codes.describe(error_code))
        self.error_code = error_code


def sign(endpoint: Endpoint, message_id: str, body: bytes, timestamp: int, *more_headers: str) -> Request:
    """A signed request, or Unsendable. `timestamp` is the time of sending, in seconds since 1970."""
    prepared = _prepare(endpoint, hub().encryption_keys)
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signature = prepared.sign(content)
    # During the overlap of a rotation, endpoints may still know only the previous secret.
    if endpoint.previous_secret_until is not None and timestamp < endpoint.previous_secret_until.timestamp():
        signature += " " + prepared.sign_with_previous(content)
    lines = [
        f"webhook-id: {message_id}",
        f"webhook-timestamp: {timestamp}",
        f"webhook-signature: {signature}",
        *more_headers,
        *prepared.headers,
    ]
    return Request(endpoint.callback_url, lines, body, prepared.certificate)


class _Prepared(NamedTuple):
    headers: list[str]
    sign: Signer
    sign_with_previous: Signer
    certificate: ClientCertificate | None
    oauth2: OAuth2Client | None


def oauth2_client(endpoint: Endpoint) -> OAuth2Client | None:
    """Whose token a request needs; None if it needs none. Raises Unsendable."""
    return _prepare(endpoint, hub().encryption_keys).oauth2


# Decrypted once: a worker sends thousands of requests to the same endpoint.
@lru_cache(maxsize=2000)
def _prepare(endpoint: Endpoint, keys: tuple[str, ...]) -> _Prepared:
    try:
        custom = headers.parse(crypto.decrypt(endpoint.custom_headers)) if endpoint.custom_headers else []
        sign = signer(crypto.decrypt(endpoint.secret))
        previous = signer(crypto.decrypt(endpoint.previous_secret)) if endpoint.previous_secret else sign
        stored = credentials.parse(endpoint.credentials)
    except (crypto.Undecipherable, BadSecret):
        raise Unsendable(error_codes.SIGNING_ERROR) from None
    except headers.UnacceptableHeaders:  # stored under earlier, wider rules
        raise Unsendable(error_codes.INVALID_REQUEST) from None
    except credentials.Unreadable:
        raise Unsendable(error_codes.CREDENTIALS_ERROR) from None
    return _Prepared([*STANDARD_HEADERS, *custom], sign, previous, *stored)


class BadSecret(ValueError):
    """Not a secret that can sign."""


def new_secret(scheme: str) -> str:
    prefix = PRIVATE_PREFIX if scheme == ASYMMETRIC else SYMMETRIC_PREFIX
    return prefix + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")


def check_shared(secret: str) -> None:
    """Raises BadSecret unless this is a shared secret, made here or by another system."""
    if not secret.startswith(SYMMETRIC_PREFIX):
        raise BadSecret(f"a shared signing secret starts with {SYMMETRIC_PREFIX}")
    signer(secret)


def endpoint_key(secret: str) -> str:
    """What the endpoint needs to check signatures: the shared secret, or the public key."""
    if not secret.startswith(PRIVATE_PREFIX):
        return secret
    public = _private_key(secret).public_key()
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return PUBLIC_PREFIX + base64.b64encode(raw).decode("ascii")


def signer(secret: str) -> Signer:
    """A function that signs `id.timestamp.body` with this secret, in the form of the webhook-signature header."""
    if secret.startswith(PRIVATE_PREFIX):
        key = _private_key(secret)
        return lambda content: "v1a," + b2a_base64(key.sign(content), newline=False).decode("ascii")
    if not secret.startswith(SYMMETRIC_PREFIX):
        raise BadSecret("a signing secret starts with whsec_ or whsk_")
    # Copying a keyed HMAC takes a third of the time of a new one.
    keyed = HMAC(_raw(secret.removeprefix(SYMMETRIC_PREFIX), MIN_BYTES, MAX_BYTES), SHA256())

    def sign(content: bytes) -> str:
        digest = keyed.copy()
        digest.update(content)
        return "v1," + b2a_base64(digest.finalize(), newline=False).decode("ascii")

    return sign


def _private_key(secret: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(_raw(secret.removeprefix(PRIVATE_PREFIX)))


def _raw(text: str, shortest: int = KEY_BYTES, longest: int = KEY_BYTES) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        raw = b""
    if not shortest <= len(raw) <= longest:
        number = str(shortest) if shortest == longest else f"{shortest} to {longest}"
        raise BadSecret(f"a signing secret holds {number} bytes in base64")
    return raw
