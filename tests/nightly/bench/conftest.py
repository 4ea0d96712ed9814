import pytest

from tests.support.server import NoServer, find


@pytest.fixture
def server_program() -> None:
    """For what starts a server of its own."""
    try:
        find()
    except NoServer as reason:
        pytest.skip(str(reason))
