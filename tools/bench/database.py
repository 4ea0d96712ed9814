"""The harness's own way to a database, past Django: it looks at several databases, and must cost next to nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SAGAS, JOBS, INBOX = "webhook_delivery_sagas", "webhook_delivery_jobs", "routing_inbox"
TOTALS, PERIODS = "stats_counters", "stats_periods"
WORKFLOWS = ("saga_instances", "saga_facts", "workflow_inbox", "workflow_touched")
EMPTIED = ("events", INBOX, SAGAS, JOBS, "dead_letters", "hub_processes", TOTALS, PERIODS, *WORKFLOWS)
# What the hub's own connections say (webhookhub/db/vendors.py).
SESSION = (
    "SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES', optimizer_switch = 'index_merge_intersection=off'"
)


class Server:
    """One database of a MySQL-family server; every statement commits by itself unless told otherwise."""

    now_sql = "UTC_TIMESTAMP(6)"
    uid_sql = "REPLACE(UUID(), '-', '')"
    mark = "%s"

    def __init__(self, port: int, name: str, *, autocommit: bool = True) -> None:
        import MySQLdb

        self.name = name
        self.url = f"mysql://hub:hub@127.0.0.1:{port}/{name}"
        self.connection = MySQLdb.connect(
            host="127.0.0.1",
            port=port,
            user="hub",
            passwd="hub",
            database=name,
            charset="utf8mb4",
            init_command=SESSION,
        )
        self.connection.autocommit(autocommit)
        self.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def seconds(self, moment: Any) -> float:
        return float(moment.timestamp())

    def empty(self) -> None:
        for table in EMPTIED:
            self.execute(f"TRUNCATE TABLE {table}")

    def close(self) -> None:
        self.connection.close()


class Embedded:
    """The embedded database's file."""

    now_sql = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    uid_sql = "lower(hex(randomblob(16)))"
    mark = "?"

    def __init__(self, file: Path) -> None:
        self.url = f"sqlite:///{file}"
        self.connection = sqlite3.connect(file, timeout=20, isolation_level=None)

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters or ()).fetchall()

    def seconds(self, moment: Any) -> float:
        from datetime import UTC, datetime

        return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        self.connection.close()


Database = Server | Embedded
