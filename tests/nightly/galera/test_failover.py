"""The cluster that the torture stands on comes back from more than the torture does to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.galera import Cluster, provider
from tests.support.server import NoServer
from tests.support.torture import torture
from tests.torture.failover import FailoverTarget

pytestmark = pytest.mark.timeout(600)
SECONDS = 30


@pytest.fixture(autouse=True)
def _galera() -> None:
    try:
        provider()
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def test_a_cluster_that_has_lost_its_majority_is_brought_together_again(cluster: Cluster):
    _, second, third = cluster.nodes
    with FailoverTarget(cluster) as target:
        target.rows("CREATE TABLE kept (number INT PRIMARY KEY)")
        target.rows("INSERT INTO kept VALUES (1)")
        third.kill()
        target.kill()
        target.restore()

        assert second.state()["wsrep_cluster_status"] == "Primary"
        target.rows("INSERT INTO kept VALUES (2)")
        target.get_ready()
        for node in cluster.nodes:
            assert node.state()["wsrep_local_state_comment"] == "Synced"
        target.kill()
        target.restore()
        assert target.rows("SELECT number FROM kept ORDER BY number") == [(1,), (2,)]


def test_nothing_is_lost_when_the_writer_of_a_cluster_is_killed(tmp_path: Path):
    figures = torture(tmp_path, "--galera", "--seconds", str(SECONDS), "--events", "600", "--database-kills", "2")

    assert figures["database kills"] == 2
    assert figures["lost databases noticed"] > 0
    assert figures["events acknowledged"] >= 300
