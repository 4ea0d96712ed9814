"""A group of three MySQL servers on hosts of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.support import mysql_group
from tools.support.database_server import NoServer
from tools.support.mysql_group import Group
from tools.support.network import Network, NoNetwork, require

NODES = ("one", "two", "three")


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        require()
        mysql_group.require()
    except (NoNetwork, NoServer) as reason:
        pytest.skip(str(reason))
    with Network(*NODES, "web", "loops", "endpoint", "client") as running:
        yield running


@pytest.fixture
def group(network: Network) -> Iterator[Group]:
    with Group([network[name] for name in NODES]) as running:
        yield running
