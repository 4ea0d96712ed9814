"""A server that is down at the start or crashes later: loops log it, wait and continue; nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest
from django.db import OperationalError, connection

from tests.processes import traffic
from tests.processes.outages import check_reconnected, migrate, seed, statuses
from tests.processes.support import LOOPS, Processes, Running, until
from tools.demo.endpoint import HttpsEndpoint, Reply
from tools.support.database_server import PrivateServer
from webhookhub.conf import KINDS
from webhookhub.db.errors import code_of

NO_SUCH_THREAD = 1094


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    """Shared by all tests of this file, which leave it running."""
    with PrivateServer() as private:
        yield private


@pytest.mark.requirement("R1-10.2b")
def test_nothing_is_lost_if_the_server_is_down_at_the_start_and_crashes_later(
    processes: Processes, endpoint: HttpsEndpoint, server: PrivateServer
):
    migrate(processes, server.url())
    seed(processes, server.url(), endpoint, 20)
    server.kill()
    processes.environment["DATABASE_URL"] = server.url()

    loops = processes.start_loops("--batch-size", "3")
    for running in loops.values():
        [lost, *_] = running.wait_for("database_lost")
        assert "Can't connect" in lost["error"]
        assert lost["retry_in_seconds"] > 0
        assert running.facts("process_started") == []
    server.start()
    check_reconnected(loops, 1)
    until(lambda: statuses(server) == {("Completed", 1): 20}, "the first events are delivered")

    seed(processes, server.url(), endpoint, 200)
    endpoint.wait_for(60)
    losses = {kind: len(running.facts("database_lost")) for kind, running in loops.items()}
    server.kill()
    for kind, running in loops.items():
        running.wait_for("database_lost", losses[kind] + 1)
    server.start()
    check_reconnected(loops, 2)

    until(lambda: sum(statuses(server).values()) == 220, "every event is routed")
    until(lambda: {status for status, _ in statuses(server)} == {"Completed"}, "every delivery ends")
    assert len({request.event_uid for request in endpoint.received}) == 220
    assert [running.stop() for running in loops.values()] == [0] * len(LOOPS)


def test_a_hub_in_one_process_waits_for_a_crashed_server_and_reports_the_responses(
    processes: Processes, endpoint: HttpsEndpoint
):
    """The requests that are open at the crash are answered while there is no server."""
    with PrivateServer() as server:
        check_that_responses_survive_a_crash(processes, endpoint, server)


def check_that_responses_survive_a_crash(processes: Processes, endpoint: HttpsEndpoint, server: PrivateServer) -> None:
    migrate(processes, server.url())
    hub = processes.start("run_hub", DATABASE_URL=server.url(), WEBHOOKHUB_LEASE="600", WEBHOOKHUB_REQUEST_TIMEOUT="90")
    hub.wait_for("process_started", 1 + len(KINDS))
    answer = threading.Event()

    def wait() -> None:
        answer.wait(60)

    endpoint.respond = lambda request: Reply(before=wait)
    seed(processes, server.url(), endpoint, 1)
    endpoint.wait_for(1)

    server.kill()
    hub.wait_for("database_lost")
    answer.set()
    server.start()

    hub.wait_for("database_reconnected")
    until(lambda: statuses(server) == {("Completed", 1): 1}, "every delivery ends")
    assert len(endpoint.received) == 1, "no response was missed"
    assert hub.facts("process_failed") == hub.facts("process_restarted") == []
    assert "Traceback" not in hub.errors
    assert hub.stop() == 0


def test_a_loop_that_waits_for_the_database_stops_promptly(processes: Processes, server: PrivateServer):
    """Before and after its start."""
    migrate(processes, server.url())
    processes.environment["DATABASE_URL"] = server.url()
    started = processes.start("run_worker")
    started.wait_for("process_started")
    server.kill()
    try:
        waiting = processes.start("run_router")
        for running in (started, waiting):
            running.wait_for("database_lost", 2)
            assert running.stop() == 0
            assert "Traceback" not in running.errors
    finally:
        server.start()


def test_nothing_is_lost_if_connections_are_killed(processes: Processes, endpoint: HttpsEndpoint):
    traffic.subscribe(endpoint)
    loops = processes.start_loops("--batch-size", "3")
    for turn in range(1, 3):
        traffic.publish(40)
        endpoint.wait_for(40 * turn)
        kill_connections()
    until(traffic.all_ended, "every delivery ends")

    for running in loops.values():
        # Two kills, but a loop may have had no connection at one of them.
        lost = len(running.wait_for("database_lost"))
        assert 1 <= lost <= 2
        # A second kill during the reconnection adds an attempt to it.
        until(partial(has_reconnected, running, lost), "the loop has reconnected")
        assert running.facts("process_failed") == []
        assert "Traceback" not in running.errors
    traffic.check_each_ended_once(endpoint)


def has_reconnected(running: Running, lost: int) -> bool:
    return sum(int(fact["after_attempts"]) for fact in running.facts("database_reconnected")) >= lost


def kill_connections() -> None:
    """All connections to the test database except this one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
        for (number,) in cursor.fetchall():
            try:
                cursor.execute(f"KILL CONNECTION {number}")
            except OperationalError as error:
                if code_of(error) != NO_SUCH_THREAD:  # it has just closed
                    raise
