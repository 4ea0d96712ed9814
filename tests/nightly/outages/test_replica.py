"""A server that is there and does not take writes now: a node without its majority, a writer that has become a replica.
Every loop says so, waits, and goes on with whoever is the writer then."""

from __future__ import annotations

from functools import partial

import pytest

from tests.processes.outages import check_sat_out, migrate, seed, statuses
from tests.processes.support import Processes, Running, until
from tools.demo.receiver import Receiver
from tools.support.database_server import NoServer, PrivateServer

READ_ONLY = 1290
EVENTS = 5


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
