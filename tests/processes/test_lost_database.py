"""A database that is not there, at the start or in the middle: every loop says so, waits, and goes on; nothing is
lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from demo.receiver import Receiver
from tests.support.server import NoServer, PrivateServer
from webhookhub.db import vendors

from . import traffic
from .support import LOOPS, Processes, Running, until

NO_SUCH_THREAD = 1094
SEED = """
from events.intake import NewEvent, publish_many
from subscriptions.models import Subscription
from webhookhub.db import clock
Subscription.objects.get_or_create(event_type="order.created", callback_url={url!r})
Subscription.objects.filter(verified=False).update(verified=True, verification_at=clock.now())
publish_many([NewEvent("order.created", {{"number": number}}) for number in range({count})])
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    """Started once for all tests here; each leaves it running."""
    if not vendors.is_server(connection):
        pytest.skip("needs a MySQL-family server")
    try:
        private = PrivateServer()
    except NoServer as reason:
        pytest.skip(str(reason))
    with private:
        yield private


def migrate(processes: Processes, url: str) -> None:
    assert processes.start("migrate", "--verbosity", "0", DATABASE_URL=url).wait() == 0


def seed(processes: Processes, url: str, receiver: Receiver, count: int) -> None:
    code = SEED.format(url=receiver.url(), count=count)
    assert processes.start("shell", "--command", code, DATABASE_URL=url).wait() == 0


def statuses(server: PrivateServer) -> dict[tuple[str, int], int]:
    """How many sagas there are of each status and number of attempts."""
    import MySQLdb

    private = MySQLdb.connect(host="127.0.0.1", port=server.port, user="hub", passwd="hub", db="webhookhub")
    with private.cursor() as cursor:
        cursor.execute(
            "SELECT status, attempt_count, COUNT(*) FROM webhook_delivery_sagas GROUP BY status, attempt_count"
        )
        found = {(status, attempts): number for status, attempts, number in cursor.fetchall()}
    private.close()
    return found


def check_sat_out(loops: dict[str, Running], times: int) -> None:
    """Each says that the database is lost, and then that it is back; none ends, none shows a traceback."""
    for kind, running in loops.items():
        assert running.is_alive, running.errors
        assert len(running.wait_for("database_back", times)) == times, kind
        assert len(running.facts("database_lost")) >= times
        assert running.facts("process_failed") == []
        assert "Traceback" not in running.errors


@pytest.mark.mysql_family
def test_a_server_that_is_down_at_the_start_and_crashes_in_the_middle_costs_nothing(
    processes: Processes, receiver: Receiver, server: PrivateServer
):
    migrate(processes, server.url())
    seed(processes, server.url(), receiver, 20)
    server.kill()
    processes.environment["DATABASE_URL"] = server.url()

    loops = processes.start_loops("--batch-size", "3")
    for running in loops.values():
        [lost, *_] = running.wait_for("database_lost")
        assert "Can't connect" in lost["error"]
        assert lost["retry_in_seconds"] > 0
        assert running.facts("process_started") == []
    server.start()
    check_sat_out(loops, 1)
    until(lambda: statuses(server) == {("Completed", 1): 20}, "what was there before is delivered")

    seed(processes, server.url(), receiver, 200)
    receiver.wait_for(60)
    said = {kind: len(running.facts("database_lost")) for kind, running in loops.items()}
    server.kill()
    for kind, running in loops.items():
        running.wait_for("database_lost", said[kind] + 1)
    server.start()
    check_sat_out(loops, 2)

    until(lambda: sum(statuses(server).values()) == 220, "every event is routed")
    until(lambda: {status for status, _ in statuses(server)} == {"Completed"}, "every delivery ends")
    assert len({request.event_uid for request in receiver.received}) == 220
    assert [running.stop() for running in loops.values()] == [0] * len(LOOPS)


@pytest.mark.mysql_family
def test_a_loop_that_waits_for_a_lost_database_leaves_promptly(processes: Processes, server: PrivateServer):
    """Whether it has started or not."""
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


@pytest.mark.mysql_family
def test_connections_killed_in_the_middle_cost_nothing(processes: Processes, receiver: Receiver):
    traffic.subscribe(receiver)
    loops = processes.start_loops("--batch-size", "3")
    for turn in range(1, 3):
        traffic.publish(40)
        receiver.wait_for(40 * turn)
        kill_connections()
    until(traffic.all_ended, "every delivery ends")

    for running in loops.values():
        # Two kills, but a loop may have been between two connections at one of them.
        lost = len(running.wait_for("database_lost"))
        assert 1 <= lost <= 2
        # The others may have ended everything before this one has its connection again.
        running.wait_for("database_back", lost)
        assert running.facts("process_failed") == []
        assert "Traceback" not in running.errors
    traffic.check_each_ended_once(receiver)


@pytest.mark.mysql_family
@pytest.mark.usefixtures("committed")
def test_a_connection_closed_because_it_was_idle_counts_as_lost():
    watcher = connection.copy()
    with connection.cursor() as cursor, watcher.cursor() as other:
        cursor.execute("SELECT CONNECTION_ID()")
        [number] = cursor.fetchone()
        cursor.execute("SET SESSION wait_timeout = 1")

        def closed() -> bool:
            other.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s", [number])
            return bool(other.fetchone()[0] == 0)

        until(closed, "the server closes the connection")
        with pytest.raises(OperationalError) as raised:
            cursor.execute("SELECT 1")
    connection.close()
    watcher.close()

    assert vendors.is_lost(raised.value)


def kill_connections() -> None:
    """All to the test database but this one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
        for (number,) in cursor.fetchall():
            try:
                cursor.execute(f"KILL CONNECTION {number}")
            except OperationalError as error:
                if vendors.error_code(error) != NO_SUCH_THREAD:  # it has just ended by itself
                    raise


@pytest.mark.every_engine
@pytest.mark.sqlite_only
def test_an_embedded_database_that_is_not_there_yet_is_waited_for(
    processes: Processes, receiver: Receiver, tmp_path: Path
):
    aside, place = tmp_path / "aside", tmp_path / "place"
    aside.mkdir()
    migrate(processes, f"sqlite:///{aside / 'hub.sqlite3'}")
    seed(processes, f"sqlite:///{aside / 'hub.sqlite3'}", receiver, 1)

    loops = processes.start_loops(DATABASE_URL=f"sqlite:///{place / 'hub.sqlite3'}")
    for running in loops.values():
        [lost, *_] = running.wait_for("database_lost")
        assert "unable to open database file" in lost["error"]
    aside.rename(place)

    check_sat_out(loops, 1)
    receiver.wait_for(1)
    assert [running.stop() for running in loops.values()] == [0] * len(LOOPS)
    with sqlite3.connect(place / "hub.sqlite3") as database:
        [(status,)] = database.execute("SELECT status FROM webhook_delivery_jobs").fetchall()
    assert status == "Completed"
