"""One build of the image for all tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.support.database_server import PrivateServer

from . import image as builder


@pytest.fixture(scope="session")
def image() -> Iterator[builder.Image]:
    builder.needs()
    with builder.temporary("build") as folder:
        yield builder.build(folder)


@pytest.fixture
def server() -> Iterator[PrivateServer]:
    with PrivateServer() as running:
        yield running
