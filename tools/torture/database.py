"""The database under torture: a private server that can be killed, and read past the hub's own code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import MySQLdb

from tools.support.database_server import PrivateServer
from webhookhub.db import vendors

NO_SUCH_THREAD = 1094
# What a commit has promised must survive, as in production.
DURABLE = (
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=256M",
    "--max-connections=300",
)
# What a commit has promised may be gone a second later: to see whether anybody would notice.
FORGETFUL = ("--innodb-flush-log-at-trx-commit=0", *DURABLE[1:])


def is_away(error: MySQLdb.Error) -> bool:
    """The injected fault, and no other."""
    return vendors.error_code(error) in vendors.LOST_CODES | {0}


class Target:
    """A database at a port of this machine, that somebody knows how to kill and to bring back."""

    session = "time_zone = '+00:00'"

    def __init__(self, port: int) -> None:
        self._port = port

    def get_ready(self) -> None:
        """Wait for whatever must be over before it may be killed again."""

    def kill(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def connection(self) -> Iterator[Any]:
        """Every statement is a transaction of its own."""
        opened = MySQLdb.connect(
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
            yield opened
        finally:
            with contextlib.suppress(MySQLdb.Error):
                opened.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def connections(self) -> list[tuple[int, int]]:
        """Number and client port of the connections to the hub's tables; none while the server is away."""
        sql = "SELECT id, host FROM information_schema.processlist WHERE db = 'webhookhub' AND id <> CONNECTION_ID()"
        try:
            return [(number, int(host.rpartition(":")[2])) for number, host in self.rows(sql) if ":" in host]
        except MySQLdb.Error as error:
            if not is_away(error):
                raise
            return []

    def kill_connection(self, number: int) -> bool:
        """Whether it was there to be killed."""
        try:
            self.rows(f"KILL CONNECTION {number}")
        except MySQLdb.Error as error:
            if vendors.error_code(error) != NO_SUCH_THREAD and not is_away(error):
                raise
            return False
        return True


class ServerTarget(Target):
    """One server: what was killed comes back by itself, after its recovery."""

    def __init__(self, server: PrivateServer) -> None:
        super().__init__(server.port)
        self._server = server

    def kill(self) -> None:
        self._server.kill()

    def restore(self) -> None:
        self._server.start()
