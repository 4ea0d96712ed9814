import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.support.database_server import NoServer, find


@pytest.fixture
def server_program() -> None:
    """Skips tests that start a private server if there is none."""
    try:
        find()
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder with a short name: the path of a server's socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    yield folder
    shutil.rmtree(folder)
