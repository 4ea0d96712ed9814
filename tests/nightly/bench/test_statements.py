"""The counter of statements, on a server without other clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.bench.database import Server
from tools.bench.statements import StatementCounter, Statements
from tools.support.database_server import PrivateServer

pytestmark = pytest.mark.usefixtures("server_program")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with PrivateServer() as server:
        database = Server(server.url())
        database.execute("CREATE TABLE source (id INT)")
        database.execute("CREATE TABLE copy (id INT)")
        database.execute("CREATE TRIGGER copied AFTER INSERT ON source FOR EACH ROW INSERT INTO copy VALUES (NEW.id)")
        database.close()
        yield server.url()


@pytest.fixture
def hub(url: str) -> Iterator[Server]:
    database = Server(url)
    yield database
    database.close()


@pytest.fixture
def counter(url: str) -> Iterator[StatementCounter]:
    database = Server(url)
    yield StatementCounter(database)
    database.close()


def test_a_known_sequence_is_counted_exactly(counter: StatementCounter, hub: Server):
    # Connected before: new connections send statements, too.
    before = counter.count()
    for _ in range(3):
        hub.execute("SELECT id FROM copy")
    hub.execute("BEGIN")
    hub.execute("UPDATE copy SET id = id + 1")
    hub.execute("COMMIT")

    counted = counter.count() - before

    assert counted == Statements(6, {"select": 3, "begin": 1, "update": 1, "commit": 1})


def test_statements_of_a_trigger_are_in_the_kinds_only(counter: StatementCounter, hub: Server):
    before = counter.count()
    hub.execute("INSERT INTO source VALUES (1)")

    assert counter.count() - before == Statements(1, {"insert": 2})


def test_its_own_statements_are_not_counted(counter: StatementCounter):
    assert [counter.count() for _ in range(3)] == [Statements(0, {})] * 3


def test_a_share_per_delivery_shows_the_most_frequent_kind_first():
    counted = Statements(40, {"commit": 10, "select": 30, "update": 0}) - Statements(4, {"select": 4})

    assert counted + Statements(1, {"begin": 1}) == Statements(37, {"begin": 1, "commit": 10, "select": 26})
    assert counted * 0.25 == Statements(9, {"commit": 2.5, "select": 6.5})
    assert str(counted * 0.25) == "select 6.5, commit 2.5"
