"""What the errors of the databases mean: by code, and from real servers where one can be made to report the error."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.processes.support import until
from webhookhub.db import errors, vendors
from webhookhub.db.errors import Kind, code_of, kind_of
from webhookhub.models import Process

CODES = {
    Kind.LOST: {
        *(0, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927),
        *(2002, 2003, 2005, 2006, 2012, 2013, 2014, 2026, 2027, 2055, 3169, 4031, 9001),
    },
    Kind.READ_ONLY: {1015, 1036, 1290, 1792, 1836, 1881},
    Kind.OFFLINE: {1047, 1180, 3032, 3100, 3168, 6400, 6401},
    Kind.FULL: {3, 1021, 1026, 1114, 1878},
    Kind.CONFLICT: {1020, 1205, 1213, 3101},
    Kind.REFUSED: {1040, 1041, 1129, 1135, 1203, 1226},
    Kind.TIMEOUT: {1969, 3024},
    Kind.LOGIN: {1044, 1045, 1049, 1130, 1698, 2059, 3118, 3159, 4151},
    Kind.DENIED: {1142, 1143, 1227, 1370, 1410},
    Kind.DUPLICATE: {1062, 1586},
    Kind.OTHER: {1030, 1054, 1064, 1146, 1153, 1317, 1406, 1644},
}
EACH = [(code, kind) for kind, codes in CODES.items() for code in sorted(codes)]


@pytest.mark.parametrize(("code", "kind"), EACH)
def test_a_code_has_one_kind(code: int, kind: Kind):
    assert kind_of(OperationalError(code, "message")) is kind


def test_every_code_of_the_table_is_tested():
    assert {code: kind for code, kind in EACH if kind is not Kind.OTHER} == errors.SERVER_CODES


@pytest.mark.parametrize("code", [1030, 1180])
def test_an_error_caused_by_a_full_disk_is_full(code: int):
    assert kind_of(OperationalError(code, 'Got error 28 "No space left on device" from storage engine')) is Kind.FULL
    assert kind_of(OperationalError(code, "Got error 128 from storage engine")) is not Kind.FULL


def test_a_connection_that_the_driver_has_closed_is_lost():
    assert kind_of(InterfaceError(0, "")) is Kind.LOST


@pytest.mark.parametrize("error", [ValueError(2006), KeyError(), DatabaseError(), OperationalError("message")])
def test_any_other_exception_is_other(error: Exception):
    assert kind_of(error) is Kind.OTHER


def test_work_may_be_repeated_after_temporary_errors_only():
    assert {kind for kind in Kind if kind.is_temporary} == {
        *(Kind.LOST, Kind.READ_ONLY, Kind.OFFLINE, Kind.FULL, Kind.CONFLICT, Kind.REFUSED, Kind.TIMEOUT),
    }
    assert {kind for kind in Kind if kind.closes} == {Kind.LOST, Kind.READ_ONLY, Kind.OFFLINE}


# The embedded database


@contextmanager
def as_django_error() -> Iterator[None]:
    """Wraps the driver's error as Django's embedded backend does."""
    try:
        yield
    except sqlite3.Error as error:
        raise OperationalError(*error.args) from error


def scratch(statements: str) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.executescript(statements)
    return database


def test_an_embedded_database_that_cannot_be_opened_is_lost(tmp_path):
    with pytest.raises(OperationalError) as raised, as_django_error():
        sqlite3.connect(tmp_path / "missing" / "hub.sqlite3")
    assert kind_of(raised.value) is Kind.LOST


def test_an_embedded_database_that_refuses_writes_is_read_only():
    database = scratch("CREATE TABLE t (a); PRAGMA query_only = 1")
    with pytest.raises(OperationalError) as raised, as_django_error():
        database.execute("INSERT INTO t VALUES (1)")
    assert kind_of(raised.value) is Kind.READ_ONLY


def test_an_embedded_database_without_space_is_full():
    database = scratch("CREATE TABLE t (a); PRAGMA max_page_count = 3")
    with pytest.raises(OperationalError) as raised, as_django_error():
        database.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert kind_of(raised.value) is Kind.FULL


def test_an_embedded_database_with_another_writer_is_a_conflict(tmp_path):
    first, second = (sqlite3.connect(tmp_path / "hub.sqlite3", isolation_level=None, timeout=0) for _ in range(2))
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError) as raised, as_django_error():
        second.execute("BEGIN IMMEDIATE")
    assert kind_of(raised.value) is Kind.CONFLICT


# A real server


@pytest.fixture
def other(committed: None) -> Iterator[BaseDatabaseWrapper]:
    """A second connection, which a test may spoil."""
    copy = connection.copy()
    yield copy
    copy.close()


def execute(database: BaseDatabaseWrapper, *statements: str) -> list[tuple[Any, ...]]:
    with database.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def error_of(work: Callable[[], Any]) -> Exception:
    with pytest.raises((DatabaseError, InterfaceError)) as raised:
        work()
    return raised.value


@pytest.mark.every_engine
def test_a_duplicate_key(committed: None):
    row = "INSERT INTO routing_inbox (event_id, event_type) VALUES (1, 'a')"
    execute(connection, row)
    error = error_of(lambda: execute(connection, row))
    assert isinstance(error, IntegrityError)
    assert kind_of(error) is Kind.DUPLICATE


@pytest.mark.mysql_family
def test_a_killed_connection_is_lost_and_replaced(other: BaseDatabaseWrapper):
    [(number,)] = execute(other, "SELECT CONNECTION_ID()")
    execute(connection, f"KILL {number}")

    assert kind_of(error_of(lambda: execute(other, "SELECT 1"))) is Kind.LOST
    assert other.connection is None
    assert execute(other, "SELECT 1") == [(1,)]


@contextmanager
def as_default(database: BaseDatabaseWrapper) -> Iterator[BaseDatabaseWrapper]:
    """Makes it the connection of the ORM; the value is the usual one."""
    usual = connections["default"]
    connections["default"] = database
    try:
        yield usual
    finally:
        connections["default"] = usual


@pytest.mark.mysql_family
@pytest.mark.parametrize("statements", [["SELECT 1"], []])
def test_a_connection_killed_in_a_transaction_is_lost_and_replaced_after_it(
    other: BaseDatabaseWrapper, statements: list[str]
):
    """At the next statement or at the commit. The end of the transaction opens no connection."""
    with as_default(other) as usual:

        def killed() -> None:
            with transaction.atomic():
                [(number,)] = execute(other, "SELECT CONNECTION_ID()")
                execute(usual, f"KILL {number}")
                for statement in statements:
                    execute(other, statement)

        assert kind_of(error_of(killed)) is Kind.LOST
        assert other.connection is None
        with transaction.atomic():
            assert execute(other, "SELECT 1") == [(1,)]


@pytest.mark.mysql_family
def test_a_connection_that_the_server_closed_while_it_was_idle_is_replaced_without_an_error(
    other: BaseDatabaseWrapper,
):
    [(number,)] = execute(other, "SELECT CONNECTION_ID()")
    execute(other, "SET SESSION wait_timeout = 1")
    sql = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number}"
    until(lambda: execute(connection, sql) == [(0,)], "the server closes the connection")

    [(new,)] = execute(other, "SELECT CONNECTION_ID()")
    assert new != number


@pytest.mark.mysql_family
def test_a_connection_that_was_idle_for_as_long_as_the_server_allows_is_replaced(other: BaseDatabaseWrapper):
    """Also if the server's packet that closes it has not arrived: after a cut of the network it may be late or lost."""
    [(number,)] = execute(other, "SELECT CONNECTION_ID()")
    assert other.settings_dict[vendors.IDLE_LIMIT] == 60 - vendors.STATEMENT_SECONDS
    other._used_at -= 60 - vendors.STATEMENT_SECONDS  # type: ignore[attr-defined]
    [(new,)] = execute(other, "SELECT CONNECTION_ID()")
    assert new != number


@pytest.mark.mysql_family
def test_an_idle_connection_that_is_open_is_kept(other: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch):
    [(number,)] = execute(other, "SELECT CONNECTION_ID()")
    monkeypatch.setattr("webhookhub.db.server.base.IDLE_SECONDS", -1.0)

    assert execute(other, "SELECT CONNECTION_ID()") == [(number,)]
    other.close_if_unusable_or_obsolete()
    assert execute(other, "SELECT CONNECTION_ID()") == [(number,)]


@pytest.mark.mysql_family
def test_a_connection_closed_between_two_requests_is_replaced_without_an_error(other: BaseDatabaseWrapper):
    [(number,)] = execute(other, "SELECT CONNECTION_ID()")
    execute(connection, f"KILL {number}")
    sql = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number}"
    until(lambda: execute(connection, sql) == [(0,)], "the server closes the connection")

    other.close_if_unusable_or_obsolete()
    assert execute(other, "SELECT 1") == [(1,)]


@pytest.mark.mysql_family
def test_a_read_only_transaction_closes_the_connection(other: BaseDatabaseWrapper):
    execute(other, "SET SESSION TRANSACTION READ ONLY")
    error = error_of(lambda: execute(other, "DELETE FROM routing_inbox WHERE event_id = 0"))
    assert (code_of(error), kind_of(error)) == (1792, Kind.READ_ONLY)
    # The next statement goes to a new connection, perhaps to another server.
    execute(other, "DELETE FROM routing_inbox WHERE event_id = 0")


@pytest.mark.mysql_family
def test_an_update_by_the_orm_reports_why_its_connection_was_closed(other: BaseDatabaseWrapper):
    """Django closes the cursor of the failed statement after the connection is closed."""
    execute(other, "SET SESSION TRANSACTION READ ONLY")
    with as_default(other):
        error = error_of(lambda: Process.objects.filter(name="x").update(pid=1))
    assert (code_of(error), kind_of(error)) == (1792, Kind.READ_ONLY)


@pytest.mark.mysql_family
def test_a_full_table(other: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch):
    never = float("-inf")
    monkeypatch.setitem(errors.last_seen, Kind.FULL, never)
    execute(
        other,
        "SET SESSION max_heap_table_size = 16384",
        "CREATE TEMPORARY TABLE full_table (a VARCHAR(1000)) ENGINE = MEMORY",
    )

    def fill() -> None:
        for _ in range(1000):
            execute(other, "INSERT INTO full_table VALUES (REPEAT('a', 1000))")

    error = error_of(fill)
    assert (code_of(error), kind_of(error)) == (1114, Kind.FULL)
    assert other.connection is not None
    assert errors.last_seen[Kind.FULL] > never


@pytest.mark.mysql_family
def test_a_lock_time_out_is_a_conflict(other: BaseDatabaseWrapper):
    execute(connection, "INSERT INTO routing_inbox (event_id, event_type) VALUES (1, 'a')")
    lock = "SELECT event_id FROM routing_inbox WHERE event_id = 1 FOR UPDATE"
    execute(other, "SET SESSION innodb_lock_wait_timeout = 1")
    with transaction.atomic():
        execute(connection, lock)
        error = error_of(lambda: execute(other, lock))
    assert (code_of(error), kind_of(error)) == (1205, Kind.CONFLICT)


@pytest.mark.mysql_family
def test_a_statement_that_takes_too_long(other: BaseDatabaseWrapper):
    is_mariadb = vendors.is_mariadb(connection)
    execute(other, f"SET SESSION {'max_statement_time = 0.1' if is_mariadb else 'max_execution_time = 100'}")
    tables = ", ".join(f"information_schema.collations {name}" for name in "abcdef")
    error = error_of(lambda: execute(other, f"SELECT COUNT(*) FROM {tables}"))
    assert (code_of(error), kind_of(error)) == (1969 if is_mariadb else 3024, Kind.TIMEOUT)


@pytest.mark.mysql_family
@pytest.mark.parametrize(("changed", "code"), [({"PASSWORD": "wrong"}, 1045), ({"NAME": "no_such_database"}, 1049)])
def test_a_wrong_login(other: BaseDatabaseWrapper, changed: dict[str, str], code: int):
    other.settings_dict |= changed
    error = error_of(lambda: execute(other, "SELECT 1"))
    assert (code_of(error), kind_of(error)) == (code, Kind.LOGIN)


@pytest.mark.mysql_family
def test_a_port_without_a_server_is_lost(other: BaseDatabaseWrapper):
    other.settings_dict["PORT"] = "1"
    error = error_of(lambda: execute(other, "SELECT 1"))
    assert code_of(error) in (2002, 2003)  # depends on the client library
    assert kind_of(error) is Kind.LOST


@pytest.fixture
def limited(other: BaseDatabaseWrapper) -> Iterator[BaseDatabaseWrapper]:
    """A user with one connection and no privileges but to read one table."""
    name = f"limited_{connection.settings_dict['NAME']}"[-32:]
    execute(
        connection,
        f"DROP USER IF EXISTS '{name}'@'%'",
        f"CREATE USER '{name}'@'%' IDENTIFIED BY 'limited' WITH MAX_USER_CONNECTIONS 1",
        f"GRANT SELECT ON routing_inbox TO '{name}'@'%'",
    )
    other.settings_dict |= {"USER": name, "PASSWORD": "limited"}
    yield other
    other.close()
    execute(connection, f"DROP USER '{name}'@'%'")


@pytest.mark.mysql_family
def test_too_many_connections_of_a_user_are_refused(limited: BaseDatabaseWrapper):
    execute(limited, "SELECT 1")
    second = limited.copy()
    error = error_of(lambda: execute(second, "SELECT 1"))
    second.close()
    assert code_of(error) in (1203, 1226)
    assert kind_of(error) is Kind.REFUSED


@pytest.mark.mysql_family
def test_a_missing_privilege_is_denied(limited: BaseDatabaseWrapper):
    error = error_of(lambda: execute(limited, "DELETE FROM routing_inbox"))
    assert (code_of(error), kind_of(error)) == (1142, Kind.DENIED)


@pytest.mark.mysql_family
@pytest.mark.parametrize(("command", "kind"), [("KILL", Kind.LOST), ("KILL QUERY", Kind.OTHER)])
def test_a_statement_whose_session_is_ended_is_lost(other: BaseDatabaseWrapper, command: str, kind: Kind):
    """MySQL reports both as 1317, and closes the session after the first."""
    [(number,)] = execute(other, "SELECT CONNECTION_ID()")
    other.inc_thread_sharing()
    seen: list[Exception] = []
    tables = ", ".join(f"information_schema.collations {name}" for name in "abcdef")

    def run() -> None:
        seen.append(error_of(lambda: execute(other, f"SELECT COUNT(*) FROM {tables}")))

    thread = threading.Thread(target=run)
    thread.start()
    runs = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {number} AND info LIKE 'SELECT COUNT%'"
    until(lambda: execute(connection, runs) == [(1,)], "the statement runs")
    execute(connection, f"{command} {number}")
    thread.join()
    assert [kind_of(error) for error in seen] == [kind]
    assert (other.connection is None) == (kind is Kind.LOST)


@pytest.mark.mysql_family
@pytest.mark.usefixtures("committed")
def test_an_interrupted_statement_is_not_temporary():
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        [number] = cursor.fetchone()
        table = "information_schema.collations"
        other = connection.copy()
        with other.cursor() as killer:
            # Repeated until the statement has begun: at an idle connection, KILL QUERY has no effect.
            ended = threading.Event()

            def interrupt() -> None:
                while not ended.wait(0.05):
                    killer.execute(f"KILL QUERY {number}")

            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                with pytest.raises(OperationalError) as raised:
                    cursor.execute(f"SELECT COUNT(*) FROM {', '.join(f'{table} {name}' for name in 'abcdef')}")
            finally:
                ended.set()
                thread.join()
        other.close()

    assert (code_of(raised.value), kind_of(raised.value)) == (1317, Kind.OTHER)
