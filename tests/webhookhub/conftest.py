"""What the hub writes to its log, as the lines that a machine would read."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from webhookhub import logs


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    """The log in its JSON form, through the handler that the product itself sets up."""
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
