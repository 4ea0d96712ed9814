"""Error codes that only a server of its own can be made to report, each with the kind that the hub decides by."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.processes.support import until
from tools.support.database_server import QUICK_OPTIONS, NoServer, PrivateServer
from tools.support.genuine_mysql import GenuineServer
from webhookhub.db.errors import Kind, code_of, kind_of
from webhookhub.runner.database import _connection

pytestmark = [pytest.mark.mysql_family, pytest.mark.timeout(120)]

TABLE = "CREATE TABLE kept (id INT PRIMARY KEY, number INT) ENGINE=InnoDB"


@pytest.fixture(params=[PrivateServer, GenuineServer], ids=["server", "genuine"])
def server(committed: None, request: pytest.FixtureRequest) -> Iterator[PrivateServer]:
    """That of this machine, and the genuine MySQL of TEST_MYSQL_ROOT."""
    try:
        private = request.param((*QUICK_OPTIONS, "--max-connections=10"))
    except NoServer as reason:
        pytest.skip(str(reason))
    with private as running:
        # As in production, a user who may not write to a replica or use the connection reserved for administrators.
        running.execute("CREATE USER plain@'%' IDENTIFIED BY 'plain'; GRANT ALL ON webhookhub.* TO plain@'%'")
        yield running


def connect(server: PrivateServer) -> BaseDatabaseWrapper:
    """As the hub does."""
    return _connection("worker", server.url().replace("hub:hub@", "plain:plain@"))


def execute(database: BaseDatabaseWrapper, *statements: str) -> list[tuple[Any, ...]]:
    with database.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def error_of(work: Callable[[], Any]) -> Exception:
    with pytest.raises((DatabaseError, InterfaceError)) as raised:
        work()
    return raised.value


def during(database: BaseDatabaseWrapper, statement: str, act: Callable[[], object]) -> Exception:
    """The error of a statement during which something happens to the server."""
    execute(database, "SELECT 1")
    failed: list[Exception] = []

    def run() -> None:
        try:
            execute(database, statement)
        except (DatabaseError, InterfaceError) as error:
            failed.append(error)

    database.inc_thread_sharing()
    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1)  # the statement runs, and there is nothing to see it by once the server is stopping
    act()
    thread.join(60)
    [error] = failed
    return error


def test_1040_too_many_connections(server: PrivateServer):
    many = [connect(server) for _ in range(11)]
    try:
        error = error_of(lambda: [execute(each, "SELECT 1") for each in many])
        assert (code_of(error), kind_of(error)) == (1040, Kind.REFUSED)
    finally:
        for each in many:
            each.close()


def test_1290_a_replica(server: PrivateServer):
    database = connect(server)
    execute(database, TABLE)
    server.execute("SET GLOBAL read_only = 1")
    error = error_of(lambda: execute(database, "INSERT INTO kept VALUES (1, 1)"))
    assert (code_of(error), kind_of(error)) == (1290, Kind.READ_ONLY)
    assert database.connection is None


def test_3032_offline_mode(server: PrivateServer):
    if "MariaDB" in server.version:
        pytest.skip("MariaDB has no offline mode")
    database = connect(server)
    execute(database, "SELECT 1")
    server.execute("SET GLOBAL offline_mode = 1")
    # The server ends the session, and refuses the next one.
    error_of(lambda: execute(database, "SELECT 1"))
    error = error_of(lambda: execute(database, "SELECT 1"))
    assert code_of(error) in (3032, 6400, 6401)
    assert kind_of(error) is Kind.OFFLINE


def test_a_server_whose_files_are_read_only(server: PrivateServer):
    database = connect(server)
    execute(database, TABLE)
    database.close()
    server.stop()
    server._options = (*server._options, "--innodb-read-only=1")
    server.start()
    error = error_of(lambda: execute(database, "INSERT INTO kept VALUES (1, 1)"))
    assert code_of(error) in (1015, 1036, 1290, 1836)
    assert kind_of(error) is Kind.READ_ONLY
    database.close()


def test_a_killed_server_is_lost(server: PrivateServer):
    database = connect(server)
    error = during(database, "SELECT SLEEP(30)", server.kill)
    assert code_of(error) in (2006, 2013, 2055)
    assert kind_of(error) is Kind.LOST
    error = error_of(lambda: execute(database, "SELECT 1"))
    assert (code_of(error) in (2002, 2003), kind_of(error)) == (True, Kind.LOST)


def test_a_server_that_shuts_down_is_lost(server: PrivateServer):
    database = connect(server)
    tables = ", ".join(f"information_schema.collations {name}" for name in "abcdef")
    error = during(database, f"SELECT COUNT(*) FROM {tables}", lambda: server.stop(signal.SIGTERM))
    # MySQL reports 1317 before it closes the session.
    assert code_of(error) in (1053, 1927, 2006, 2013, 2055)
    assert kind_of(error) is Kind.LOST
    assert database.connection is None


def test_1213_a_deadlock(server: PrivateServer):
    one, two = connect(server), connect(server)
    execute(one, TABLE, "INSERT INTO kept VALUES (1, 1), (2, 2)")
    execute(one, "START TRANSACTION", "UPDATE kept SET number = 3 WHERE id = 1")
    execute(two, "START TRANSACTION", "UPDATE kept SET number = 4 WHERE id = 2")
    two.inc_thread_sharing()
    more = "INSERT INTO kept VALUES (3, 3), (4, 4), (5, 5)"
    thread = threading.Thread(target=lambda: execute(two, more, BLOCKED), daemon=True)
    thread.start()
    # Not innodb_trx: while it is read often, it shows an old copy.
    waits = f"SELECT COUNT(*) FROM information_schema.processlist WHERE info = '{BLOCKED}'"
    until(lambda: server_rows(server, waits) == [(1,)], "the other transaction waits", 30)
    error = error_of(lambda: execute(one, "UPDATE kept SET number = 3 WHERE id = 2"))
    thread.join(30)
    assert (code_of(error), kind_of(error)) == (1213, Kind.CONFLICT)
    for each in (one, two):
        each.close()


# The other transaction has written more rows, so that this one is rolled back.
BLOCKED = "UPDATE kept SET number = 4 WHERE id = 1"


def server_rows(server: PrivateServer, sql: str) -> list[tuple[Any, ...]]:
    connection = server._connect()
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows = list(cursor.fetchall())
    connection.close()
    return rows
