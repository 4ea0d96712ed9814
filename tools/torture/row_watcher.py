"""Reads all final rows repeatedly: they must never change.

A server shows a commit to others shortly before it is on disk, and a crash at that time undoes it. Nothing else may be
undone. A sample therefore counts once a later commit of the watcher itself was acknowledged, because the server's log
has one order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import MySQLdb
from MySQLdb.constants import ER

from .database import Database, is_lost

MARKER = "torture_marker"
MIN_PAUSE_SECONDS = 2.0
# The part of the time that the watcher may use.
SHARE = 0.1
# A cluster that has just lost a node delays writes, including the watcher's own; the round is repeated later.
CONFLICTS = (ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK)
FINISHED = "status IN ('Completed', 'Failed')"

# name: table, ignored columns, condition for final rows
FINAL = {
    "event": ("events", (), "1 = 1"),
    "dead letter": ("dead_letters", (), "1 = 1"),
    "saga": ("webhook_delivery_sagas", (), "status IN ('Completed', 'DeadLettered')"),
    "job": ("webhook_delivery_jobs", ("settled_at",), FINISHED),
    "settled job": ("webhook_delivery_jobs", (), f"{FINISHED} AND settled_at IS NOT NULL"),
}


class RowWatcher:
    """A context manager that samples in a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hashes: dict[str, dict[int, str]] = {name: {} for name in FINAL}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.changes: list[str] = []
        self.rounds = 0

    def __enter__(self) -> RowWatcher:
        with self._database.connection() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {MARKER} (id INT PRIMARY KEY, number BIGINT NOT NULL)")
            cursor.execute(f"INSERT INTO {MARKER} VALUES (1, 0)")
            self._queries = {name: _query(cursor, *FINAL[name]) for name in FINAL}
        self._thread.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def rows(self) -> int:
        """The number of watched rows."""
        return sum(map(len, self._hashes.values()))

    def sample(self) -> None:
        """One round. If the database is lost meanwhile, the round does not count."""
        with self._database.connection() as connection, connection.cursor() as cursor:
            current: dict[str, dict[int, str]] = {}
            for name, query in self._queries.items():
                cursor.execute(query)
                current[name] = dict(cursor.fetchall())
            cursor.execute(f"UPDATE {MARKER} SET number = number + 1")
        for name, rows in current.items():
            self.changes += differences(name, self._hashes[name], rows)
            for pk, hash in rows.items():
                self._hashes[name].setdefault(pk, hash)
        self.rounds += 1

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            started = time.monotonic()
            try:
                self.sample()
            except MySQLdb.Error as error:
                if not is_lost(error) and error.args[0] not in CONFLICTS:
                    self.changes.append(f"the rows cannot be read: {error}")
                    return
                pause = MIN_PAUSE_SECONDS
                continue
            pause = max(MIN_PAUSE_SECONDS, (time.monotonic() - started) / SHARE)


def differences(name: str, before: dict[int, str], now: dict[int, str]) -> list[str]:
    missing = [f"{name} {pk} is missing or no longer final" for pk in before.keys() - now.keys()]
    return missing + [f"{name} {pk} has changed" for pk in before.keys() & now.keys() if before[pk] != now[pk]]


def _query(cursor: Any, table: str, ignored: Iterable[str], condition: str) -> str:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = 'webhookhub' AND table_name = %s ORDER BY ordinal_position",
        [table],
    )
    columns = [name for (name,) in cursor.fetchall() if name not in ignored]
    values = ", ".join(f"QUOTE(`{name}`)" for name in columns)  # QUOTE distinguishes NULL from an empty text
    return f"SELECT id, SHA2(CONCAT_WS(',', {values}), 256) FROM {table} WHERE {condition}"
