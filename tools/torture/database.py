"""The database under test: it can be killed, and it is read without the hub's code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import MySQLdb

from tools.support.database_server import PrivateServer
from webhookhub.db.errors import SERVER_CODES, Kind, code_of

NO_SUCH_THREAD = 1094
# Commits survive a kill, as in production.
DURABLE = (
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=256M",
    "--max-connections=300",
)
# Commits of the last second may be lost, to show that a run detects it.
FORGETFUL = ("--innodb-flush-log-at-trx-commit=0", *DURABLE[1:])


def is_lost(error: MySQLdb.Error) -> bool:
    """Whether the error is the effect of an injected fault."""
    kind = SERVER_CODES.get(code_of(error) or 0, Kind.OTHER)
    return kind.closes or kind is Kind.REFUSED


class Database:
    """A database on a local port. Subclasses can kill and restore it."""

    session = "time_zone = '+00:00'"

    def __init__(self, port: int) -> None:
        self._port = port

    def wait_until_killable(self) -> None:
        """Waits until it has recovered from the last kill."""

    def kill(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection with autocommit."""
        connection = MySQLdb.connect(
            host="127.0.0.1",
            port=self._port,
            user="hub",
            passwd="hub",
            db="webhookhub",
            charset="utf8mb4",
            connect_timeout=5,
            read_timeout=60,
            autocommit=True,
            init_command=f"SET {self.session}",
        )
        try:
            yield connection
        finally:
            with contextlib.suppress(MySQLdb.Error):
                connection.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def connections(self) -> list[tuple[int, int]]:
        """Id and client port of all connections to the hub's database; empty while the server is down."""
        sql = "SELECT id, host FROM information_schema.processlist WHERE db = 'webhookhub' AND id <> CONNECTION_ID()"
        try:
            return [(id, int(host.rpartition(":")[2])) for id, host in self.rows(sql) if ":" in host]
        except MySQLdb.Error as error:
            if not is_lost(error):
                raise
            return []

    def kill_connection(self, id: int) -> bool:
        """Returns False if there is no such connection."""
        try:
            self.rows(f"KILL CONNECTION {id}")
        except MySQLdb.Error as error:
            if code_of(error) != NO_SUCH_THREAD and not is_lost(error):
                raise
            return False
        return True


class ServerDatabase(Database):
    """A single server, which recovers when it is started again."""

    def __init__(self, server: PrivateServer) -> None:
        super().__init__(server.port)
        self._server = server

    def kill(self) -> None:
        self._server.kill()

    def restore(self) -> None:
        self._server.start()
