"""A Galera cluster that loses its writer, its majority, or a node's connection to the others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.nightly.outages.test_replica import EVENTS, logs_error
from tests.processes.outages import migrate, seed, statuses
from tests.processes.support import Processes, until
from tests.support.torture import torture
from tools.demo.endpoint import HttpsEndpoint
from tools.support.database_server import NoServer
from tools.support.galera import Cluster, provider
from tools.torture.cluster_database import ClusterDatabase

pytestmark = pytest.mark.timeout(600)
SECONDS = 30
NO_MAJORITY = 1047


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


def test_a_cluster_without_a_majority_recovers(cluster: Cluster):
    _, second, third = cluster.nodes
    with ClusterDatabase(cluster) as database:
        database.rows("CREATE TABLE kept (number INT PRIMARY KEY)")
        database.rows("INSERT INTO kept VALUES (1)")
        third.kill()
        database.kill()
        database.restore()

        assert second.state()["wsrep_cluster_status"] == "Primary"
        database.rows("INSERT INTO kept VALUES (2)")
        database.wait_until_killable()
        for node in cluster.nodes:
            assert node.state()["wsrep_local_state_comment"] == "Synced"
        database.kill()
        database.restore()
        assert database.rows("SELECT number FROM kept ORDER BY number") == [(1,), (2,)]


def test_nothing_is_lost_when_the_writer_of_a_cluster_is_killed(tmp_path: Path):
    stats = torture(tmp_path, "--galera", "--seconds", str(SECONDS), "--events", "600", "--database-kills", "2")

    assert stats["database kills"] == 2
    assert stats["lost connections noticed"] > 0
    assert stats["events acknowledged"] >= 300


def test_loops_wait_for_a_node_without_a_majority(processes: Processes, endpoint: HttpsEndpoint):
    with Cluster(2) as cluster:
        node, _ = cluster.nodes
        migrate(processes, node.url())
        processes.environment["DATABASE_URL"] = node.url()
        loops = processes.start_loops()
        for running in loops.values():
            running.wait_for("process_started")

        node.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
        for running in loops.values():
            until(partial(logs_error, running, {NO_MAJORITY}, "offline"), "each loop logs the error")
        node.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
        for running in loops.values():
            running.wait_for("database_reconnected")

        seed(processes, node.url(), endpoint, EVENTS)
        until(lambda: statuses(node) == {("Completed", 1): EVENTS}, "everything is delivered")
    assert not any("Traceback" in running.errors for running in loops.values())
