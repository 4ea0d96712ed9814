"""A process that vanishes in the middle of a transaction: its locks are released within the limit.

The process is stopped by a signal. To the server, that is the same as a host that was cut off: its session stays open,
and nothing arrives any more.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from jobs.models import Job
from sagas.models import Saga
from tests.factories import SubscriptionFactory
from tests.processes import traffic
from tests.processes.support import LOOPS, Processes, Running, until
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.db import vendors
from webhookhub.db.errors import Kind, kind_of

pytestmark = pytest.mark.mysql_family

LIMIT_SECONDS = 20
IDLE_SECONDS = LIMIT_SECONDS - vendors.STATEMENT_SECONDS
EVENTS = 5

# Runs a command that stops before the first commit of a transaction that has locked or written rows.
STOPPING = """
import os, signal, sys
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

locked = []

def watch(execute, sql, params, many, context):
    result = execute(sql, params, many, context)
    reads = sql.startswith("SELECT") and "FOR UPDATE" not in sql
    if context["connection"].in_atomic_block and not reads and context["cursor"].rowcount > 0:
        locked.append(sql)
    return result

def commit(self, usual=BaseDatabaseWrapper._commit):
    if locked:
        os.kill(os.getpid(), signal.SIGSTOP)
    locked.clear()
    return usual(self)

BaseDatabaseWrapper._commit = commit
connection_created.connect(lambda connection, **_: connection.execute_wrappers.append(watch), weak=False)
sys.argv[0] = "manage.py"
from webhookhub.command_line import main
main()
"""


def is_stopped(running: Running) -> bool:
    assert running.is_alive, running.errors
    return Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("kind", ["router", "orchestrator", "worker"])
def test_the_work_of_a_vanished_loop_is_done_within_the_limit(processes: Processes, endpoint: HttpsEndpoint, kind: str):
    processes.environment["WEBHOOKHUB_DATABASE_LOCK_LIMIT"] = str(LIMIT_SECONDS)
    SubscriptionFactory(callback_url=endpoint.url("/steady"))
    vanished = processes.execute(["-c", STOPPING, f"run_{kind}"])
    vanished.wait_for("process_started")
    loops = {other: processes.start(f"run_{other}") for other in LOOPS if other != kind}
    traffic.publish(EVENTS)
    until(lambda: is_stopped(vanished), "the process stops with locks")
    stopped_at = time.monotonic()
    loops[kind] = processes.start(f"run_{kind}")

    def all_completed() -> bool:
        completed = list(Saga.objects.values_list("status", flat=True)) == ["Completed"] * EVENTS
        return completed and not Job.objects.filter(settled_at=None).exists()

    until(all_completed, "everything is delivered", LIMIT_SECONDS + 10)
    # Not before: the locks were really held.
    assert IDLE_SECONDS - 2 < time.monotonic() - stopped_at < LIMIT_SECONDS
    assert len(endpoint.received) == EVENTS

    vanished.signal(signal.SIGCONT)
    vanished.wait_for("database_lost")
    vanished.wait_for("database_reconnected")
    # It may stop again at its next transaction.
    vanished.kill()
    assert [running.stop() for running in loops.values()] == [0] * len(loops)
    for running in loops.values():
        assert "Traceback" not in running.errors


def test_every_connection_has_the_limits(committed: None):
    options = connection.settings_dict["OPTIONS"]
    assert options["read_timeout"] == options["write_timeout"] == vendors.STATEMENT_SECONDS
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@session.wait_timeout, @@session.net_read_timeout, @@session.net_write_timeout")
        assert cursor.fetchone() == (60 - vendors.STATEMENT_SECONDS,) * 3


def test_a_statement_that_the_server_does_not_answer_is_lost(committed: None):
    other = connection.copy()
    other.settings_dict["OPTIONS"] |= {"read_timeout": 1, "write_timeout": 1}
    with other.cursor() as cursor, pytest.raises(OperationalError) as raised:
        cursor.execute("SELECT SLEEP(5)")
    assert kind_of(raised.value) is Kind.LOST
    assert other.connection is None


def test_an_idle_loop_outlives_the_servers_limit_without_losing_the_database(processes: Processes):
    """The server closes its connection between two polls."""
    processes.environment |= {"WEBHOOKHUB_DATABASE_LOCK_LIMIT": str(LIMIT_SECONDS), "WEBHOOKHUB_HEARTBEAT": "7"}
    router = processes.start("run_router", "--interval", "7")
    router.wait_for("process_started")
    sql = "SELECT COUNT(*), MAX(id) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    seen: set[int] = set()

    def two_connections() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            seen.add(cursor.fetchone()[1])
        return len(seen - {None}) >= 2

    until(two_connections, "the loop has opened a second connection", 60)
    assert router.facts("database_lost") == []
    assert router.stop() == 0
