"""Requests, responses, and the part of a response that is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SNIPPET_LENGTH = 1000
# Bytes of a response that are returned.
KEPT_BODY_BYTES = 4096


# Tuples and not dataclasses: each delivery creates one of each, and a tuple takes half the time.
class ClientCertificate(NamedTuple):
    """A certificate with those of its issuers, and its private key, in PEM form."""

    chain: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(…)"


class Request(NamedTuple):
    url: str
    headers: Sequence[str]
    body: bytes
    certificate: ClientCertificate | None = None
    kept_body: int = KEPT_BODY_BYTES


class Response(NamedTuple):
    """`error_code` is None exactly when the endpoint responded with 2xx."""

    error_code: str | None
    duration_ms: int
    status: int | None = None
    retry_after: str | None = None
    body: bytes = b""


def snippet(text: str) -> str:
    """The text to store: bounded, and without control characters, which terminals and databases may interpret."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)[:SNIPPET_LENGTH]
