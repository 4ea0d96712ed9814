"""A server that writes a binary log lets only some create triggers: `migrate` says so before it begins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, connections

from tests.processes.support import Processes
from tools.support.database_server import QUICK_OPTIONS, NoServer, PrivateServer
from webhookhub.db import requirements, vendors


@pytest.fixture(scope="module")
def logging_server() -> Iterator[PrivateServer]:
    if not vendors.is_server(connection):
        pytest.skip("needs a MySQL-family server")
    try:
        private = PrivateServer((*QUICK_OPTIONS, "--log-bin=binlog", "--server-id=1"))
    except NoServer as reason:
        pytest.skip(str(reason))
    with private:
        yield private


def as_migrator(server: PrivateServer, *grants: str, trusted: int = 0) -> str:
    """The URL of a user that may do everything to the hub's database, and what `grants` say."""
    server.execute("DROP USER IF EXISTS migrator; CREATE USER migrator IDENTIFIED BY 'm'")
    server.execute("; ".join(["GRANT ALL ON webhookhub.* TO migrator", *grants]))
    server.execute(f"SET GLOBAL log_bin_trust_function_creators = {trusted}")
    return server.url().replace("hub:hub@", "migrator:m@")


def tables(server: PrivateServer) -> int:
    found = server._connect()
    with found.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'webhookhub'")
        count = int(cursor.fetchone()[0])
    found.close()
    return count


def test_migrate_stops_before_it_begins_where_triggers_would_be_refused(
    processes: Processes, logging_server: PrivateServer
):
    plain = as_migrator(logging_server)

    refused = processes.start("migrate", DATABASE_URL=plain)

    assert refused.wait() == 1
    assert "(webhookhub.E020) the server writes a binary log and lets only SUPER create triggers" in refused.errors
    assert "HINT: set log_bin_trust_function_creators = 1 on the server" in refused.errors
    assert "Traceback" not in refused.errors
    assert tables(logging_server) == 0


def test_a_trusting_server_or_the_privilege_is_enough_and_a_migrated_database_needs_neither(
    processes: Processes, logging_server: PrivateServer
):
    as_migrator(logging_server)
    [fault] = faults(logging_server)
    assert fault.id == "webhookhub.E020"
    as_migrator(logging_server, trusted=1)
    assert faults(logging_server) == []
    privileged = as_migrator(logging_server, "GRANT SUPER ON *.* TO migrator")
    assert faults(logging_server) == []

    assert processes.start("migrate", "--verbosity", "0", DATABASE_URL=privileged).wait() == 0
    as_migrator(logging_server)
    assert faults(logging_server) == []


def faults(server: PrivateServer) -> list[requirements.Problem]:
    """As the migrating user finds them."""
    default, other = connections["default"], connection.copy()
    other.settings_dict |= {"USER": "migrator", "PASSWORD": "m", "NAME": "webhookhub", "PORT": server.port}
    connections["default"] = other
    try:
        return list(requirements.migration_problems())
    finally:
        connections["default"] = default
        other.close()
