"""A server that is there and does not take writes now: a node without its majority, a writer that has become a replica.
Every loop says so, waits, and goes on with whoever is the writer then."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from django.db import connection

from demo.receiver import Receiver
from tests.support.galera import Cluster, provider
from tests.support.server import NoServer, PrivateServer
from webhookhub.db import vendors

from .support import Processes, Running, until
from .test_lost_database import check_sat_out, migrate, seed, statuses

NO_MAJORITY = 1047
READ_ONLY = 1290
EVENTS = 5


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if not vendors.is_server(connection):
        pytest.skip("needs a MySQL-family server")
    try:
        provider()
    except NoServer as reason:
        pytest.skip(str(reason))
    with Cluster(2) as running:
        yield running


@pytest.mark.mysql_family
@pytest.mark.timeout(400)
def test_a_node_that_has_lost_its_majority_is_waited_for(processes: Processes, receiver: Receiver, cluster: Cluster):
    node, _ = cluster.nodes
    migrate(processes, node.url())
    processes.environment["DATABASE_URL"] = node.url()
    loops = processes.start_loops()
    for running in loops.values():
        running.wait_for("process_started")

    node.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
    for running in loops.values():
        until(partial(says, running, NO_MAJORITY), "each is refused and says so")
    node.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
    for running in loops.values():
        running.wait_for("database_back")

    seed(processes, node.url(), receiver, EVENTS)
    until(lambda: statuses(node) == {("Completed", 1): EVENTS}, "everything is delivered")
    assert not any("Traceback" in running.errors for running in loops.values())


@pytest.mark.mysql_family
def test_a_writer_that_has_become_a_replica_is_waited_for(processes: Processes, receiver: Receiver):
    try:
        private = PrivateServer()
    except NoServer as reason:
        pytest.skip(str(reason))
    with private as server:
        migrate(processes, server.url())
        seed(processes, server.url(), receiver, EVENTS)
        # As in production: not a user who may write in spite of it.
        server.execute("CREATE USER plain@'%' IDENTIFIED BY 'plain'; GRANT ALL ON webhookhub.* TO plain@'%'")
        processes.environment["DATABASE_URL"] = server.url().replace("hub:hub@", "plain:plain@")
        server.execute("SET GLOBAL read_only = 1")

        loops = processes.start_loops()
        for running in loops.values():
            until(partial(says, running, READ_ONLY), "each is refused and says so")
        server.execute("SET GLOBAL read_only = 0")

        check_sat_out(loops, 1)
        until(lambda: statuses(server) == {("Completed", 1): EVENTS}, "everything is delivered")


def says(running: Running, code: int) -> bool:
    assert running.is_alive, running.errors
    return any(f"({code}, " in fact["error"] for fact in running.facts("database_lost"))
