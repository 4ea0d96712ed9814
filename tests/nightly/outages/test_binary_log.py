"""A server with a binary log restricts who may create triggers: `migrate` checks it before it starts."""

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
    """The URL of a user with all privileges on the hub's database, and with `grants`."""
    server.execute("DROP USER IF EXISTS migrator; CREATE USER migrator IDENTIFIED BY 'm'")
    server.execute("; ".join(["GRANT ALL ON webhookhub.* TO migrator", *grants]))
    server.execute(f"SET GLOBAL log_bin_trust_function_creators = {trusted}")
    return server.url().replace("hub:hub@", "migrator:m@")


def count_tables(server: PrivateServer) -> int:
    root = server._connect()
    with root.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'webhookhub'")
        count = int(cursor.fetchone()[0])
    root.close()
    return count


def test_migrate_is_refused_without_the_privilege_to_create_triggers(
    processes: Processes, logging_server: PrivateServer
):
    plain = as_migrator(logging_server)

    refused = processes.start("migrate", DATABASE_URL=plain)

    assert refused.wait() == 1
    assert "(webhookhub.E020) the server writes a binary log and lets only SUPER create triggers" in refused.errors
    assert "HINT: set log_bin_trust_function_creators = 1 on the server" in refused.errors
    assert "Traceback" not in refused.errors
    assert count_tables(logging_server) == 0


def test_the_privilege_or_a_trusting_server_is_enough_and_a_migrated_database_needs_neither(
    processes: Processes, logging_server: PrivateServer
):
    as_migrator(logging_server)
    [problem] = problems(logging_server)
    assert problem.id == "webhookhub.E020"
    as_migrator(logging_server, trusted=1)
    assert problems(logging_server) == []
    privileged = as_migrator(logging_server, "GRANT SUPER ON *.* TO migrator")
    assert problems(logging_server) == []

    assert processes.start("migrate", "--verbosity", "0", DATABASE_URL=privileged).wait() == 0
    as_migrator(logging_server)
    assert problems(logging_server) == []


def problems(server: PrivateServer) -> list[requirements.Problem]:
    """The problems of the migrating user."""
    default, other = connections["default"], connection.copy()
    other.settings_dict |= {"USER": "migrator", "PASSWORD": "m", "NAME": "webhookhub", "PORT": server.port}
    connections["default"] = other
    try:
        return list(requirements.migration_problems())
    finally:
        connections["default"] = default
        other.close()
