"""The hub's log as JSON lines."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from webhookhub import logs


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    """The JSON log, written by the product's own handler."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    logs.configure("INFO", "json")
    stream = io.StringIO()
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)
    yield stream
    root.handlers = handlers
    root.setLevel(level)
