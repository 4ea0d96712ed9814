"""Connections to the benchmark's databases, without Django: it uses several at once, and they must cost little."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tools.bench import machine

SAGAS, JOBS, INBOX = "webhook_delivery_sagas", "webhook_delivery_jobs", "routing_inbox"
COUNTERS, PERIODS = "stats_counters", "stats_periods"
WORKFLOWS = ("saga_instances", "saga_facts", "workflow_inbox", "workflow_touched")
TABLES = ("events", INBOX, SAGAS, JOBS, "dead_letters", "hub_processes", COUNTERS, PERIODS, *WORKFLOWS)
# As the hub's own connections (webhookhub/db/vendors.py).
SESSION = (
    "SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES', optimizer_switch = 'index_merge_intersection=off'"
)

# A derived table with the column n, from 0 to 99,999.
_DIGITS = "(" + " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10)) + ")"
NUMBERS = (
    "(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n "
    f"FROM {_DIGITS} a, {_DIGITS} b, {_DIGITS} c, {_DIGITS} e, {_DIGITS} f) numbers"
)


class Server:
    """A database on a MySQL-family server. Each statement commits unless it is within a transaction."""

    now_sql = "UTC_TIMESTAMP(6)"
    placeholder = "%s"

    def __init__(self, url: str) -> None:
        import MySQLdb

        self.url = url
        parts = urlsplit(url)
        self.connection = MySQLdb.connect(
            host=parts.hostname or "",
            port=parts.port or 3306,
            user=parts.username or "",
            passwd=unquote(parts.password or ""),
            database=parts.path.removeprefix("/"),
            charset="utf8mb4",
            init_command=SESSION,
            autocommit=True,
        )
        self.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def seconds(self, time: Any) -> float:
        return float(time.timestamp())

    def empty(self) -> None:
        for table in TABLES:
            self.execute(f"TRUNCATE TABLE {table}")

    def close(self) -> None:
        self.connection.close()


class ExistingServer:
    """A context manager: a server that runs already, on this machine and with durable commits.

    Its databases are the one of the URL, which must not exist and is dropped at the end, and others whose names start
    with that name.
    """

    def __init__(self, url: str) -> None:
        self._base, _, self._prefix = url.rpartition("/")
        self.port = urlsplit(url).port or 3306
        self.pid = machine.listening_process(self.port)

    def url(self, database: str = "webhookhub") -> str:
        name = self._prefix if database == "webhookhub" else f"{self._prefix}_{database}"
        return f"{self._base}/{name}"

    def __enter__(self) -> ExistingServer:
        server = Server(f"{self._base}/information_schema")
        try:
            [(flush,)] = server.execute("SELECT @@innodb_flush_log_at_trx_commit")
            if flush != 1:
                raise ValueError("the server must commit durably: set innodb_flush_log_at_trx_commit = 1")
            server.execute(f"CREATE DATABASE {self._prefix} CHARACTER SET utf8mb4")
        finally:
            server.close()
        return self

    def __exit__(self, *exception: Any) -> None:
        server = Server(f"{self._base}/information_schema")
        server.execute(f"DROP DATABASE {self._prefix}")
        server.close()


class Embedded:
    """An SQLite database."""

    now_sql = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    placeholder = "?"

    def __init__(self, file: Path) -> None:
        self.url = f"sqlite:///{file}"
        self.connection = sqlite3.connect(file, timeout=20, isolation_level=None)

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters or ()).fetchall()

    def seconds(self, time: Any) -> float:
        return datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        self.connection.close()


Database = Server | Embedded
