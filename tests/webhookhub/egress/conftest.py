"""Requests to endpoints on loopback, answered or not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from webhookhub.egress.engine import Engine
from webhookhub.egress.messages import Request, Response


@pytest.fixture
def trusted(certificate_files: tuple[Path, Path], hub_settings: Callable[..., None]) -> Path:
    """The certificate of an endpoint that the hub trusts."""
    authority, server = certificate_files
    hub_settings(ca_bundle=str(authority))
    return server


def post(url: str, body: bytes = b"{}", headers: tuple[str, ...] = ()) -> Request:
    return Request(url, ["Content-Type: application/json", *headers], body)


def collect(engine: Engine[Any], count: int, seconds: float = 20) -> dict[Any, Response]:
    """The first `count` responses by their tags; AssertionError if that takes too long."""
    responses: dict[Any, Response] = {}
    until = time.monotonic() + seconds
    while len(responses) < count:
        assert time.monotonic() < until, f"{len(responses)} of {count} answers"
        responses |= dict(engine.poll(0.1))
    return responses
