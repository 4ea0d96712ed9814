"""The cluster that the torture stands on comes back from more than the torture does to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.galera import Cluster, provider
from tests.support.server import NoServer

from .failover import FailoverTarget

pytestmark = [pytest.mark.mysql_family, pytest.mark.timeout(400)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    try:
        provider()
    except NoServer as reason:
        pytest.skip(str(reason))
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
