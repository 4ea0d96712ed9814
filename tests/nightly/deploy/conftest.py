"""One build of the image for all tests that need it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.support.database_server import PrivateServer

from . import image as builder

# Of one test with its fixtures: the first one of a new checkout downloads a Debian, or compiles helm.
SECONDS = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def image() -> Iterator[builder.Image]:
    builder.needs()
    with builder.temporary("build") as folder:
        yield builder.build(folder)


@pytest.fixture
def server() -> Iterator[PrivateServer]:
    with PrivateServer() as running:
        yield running
