"""What is sent, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


# Tuples and not dataclasses: one of each is made for every delivery, and these are made in half the time.
class Request(NamedTuple):
    url: str
    headers: Sequence[str]
    body: bytes


class Response(NamedTuple):
    """What came back. `error_code` is None exactly when the receiver answered 2xx."""

    error_code: str | None
    duration_ms: int
    status: int | None = None
    retry_after: str | None = None
    body: bytes = b""
