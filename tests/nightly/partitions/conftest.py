"""A hub whose database, web server, loops, endpoint and producer are on hosts of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.failover.servers import HostServer
from tools.failover.site import Site, SocketDatabase
from tools.support.database_server import NoServer
from tools.support.network import Network, NoNetwork, require

HOSTS = ("database", "web", "loops-a", "loops-b", "loops-c", "endpoint", "client")


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        require()
    except NoNetwork as reason:
        pytest.skip(str(reason))
    with Network(*HOSTS) as running:
        yield running


@pytest.fixture
def server(network: Network) -> Iterator[HostServer]:
    try:
        private = HostServer(network["database"])
    except NoServer as reason:
        pytest.skip(str(reason))
    with private as running:
        assert isinstance(running, HostServer)
        yield running


@pytest.fixture
def site(network: Network, server: HostServer, tmp_path: Path) -> Iterator[Site]:
    database = SocketDatabase(lambda: server.socket)
    with Site(tmp_path / "site", database, server.url()) as running:
        running.prepare(network["endpoint"], network["web"])
        yield running
