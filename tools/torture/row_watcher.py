"""Looks at the tables again and again: a row that was final once must be the same for ever.

A server shows a commit to others a moment before it is on the disk, and a crash in that moment undoes what was seen.
Nothing else that is seen may be undone. So a sample counts once a commit of the sampler's own, made after it, has
been acknowledged: the server's log has one order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import MySQLdb
from MySQLdb.constants import ER

from .target import Target, is_away

MARKER = "torture_marker"
LEAST_PAUSE_SECONDS = 2.0
# The sampler takes at most this part of the time.
SHARE = 0.1
# A cluster that has just lost a node lets others wait, for the marker too: no round, and no finding.
IN_THE_WAY = (ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK)
FINISHED = "status IN ('Completed', 'Failed')"

# what: table, columns left out, which rows are final
FINAL = {
    "event": ("events", (), "1 = 1"),
    "dead letter": ("dead_letters", (), "1 = 1"),
    "saga": ("webhook_delivery_sagas", (), "status IN ('Completed', 'DeadLettered')"),
    "job": ("webhook_delivery_jobs", ("settled_at",), FINISHED),
    "settled job": ("webhook_delivery_jobs", (), f"{FINISHED} AND settled_at IS NOT NULL"),
}


class Sampler:
    """Samples while entered."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._seen: dict[str, dict[int, str]] = {what: {} for what in FINAL}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.changed: list[str] = []
        self.rounds = 0

    def __enter__(self) -> Sampler:
        with self._target.connection() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {MARKER} (id INT PRIMARY KEY, number BIGINT NOT NULL)")
            cursor.execute(f"INSERT INTO {MARKER} VALUES (1, 0)")
            self._queries = {what: _query(cursor, *FINAL[what]) for what in FINAL}
        self._thread.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def rows(self) -> int:
        """How many final rows are being watched."""
        return sum(map(len, self._seen.values()))

    def look(self) -> None:
        """One round; a database that is lost in the middle of it makes it none."""
        with self._target.connection() as connection, connection.cursor() as cursor:
            now: dict[str, dict[int, str]] = {}
            for what, query in self._queries.items():
                cursor.execute(query)
                now[what] = dict(cursor.fetchall())
            cursor.execute(f"UPDATE {MARKER} SET number = number + 1")
        for what, rows in now.items():
            self._compare(what, rows)
        self.rounds += 1

    def _compare(self, what: str, rows: dict[int, str]) -> None:
        self.changed += changes(what, self._seen[what], rows)
        for key, hashed in rows.items():
            self._seen[what].setdefault(key, hashed)

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            started = time.monotonic()
            try:
                self.look()
            except MySQLdb.Error as error:
                if not is_away(error) and error.args[0] not in IN_THE_WAY:
                    self.changed.append(f"nothing can be said: {error}")
                    return
                pause = LEAST_PAUSE_SECONDS
                continue
            pause = max(LEAST_PAUSE_SECONDS, (time.monotonic() - started) / SHARE)


def changes(what: str, before: dict[int, str], now: dict[int, str]) -> list[str]:
    found = [f"{what} {key} is gone, or final no more" for key in before.keys() - now.keys()]
    return found + [f"{what} {key} has changed" for key in before.keys() & now.keys() if before[key] != now[key]]


def _query(cursor: Any, table: str, left_out: Iterable[str], condition: str) -> str:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = 'webhookhub' AND table_name = %s ORDER BY ordinal_position",
        [table],
    )
    columns = [name for (name,) in cursor.fetchall() if name not in left_out]
    values = ", ".join(f"QUOTE(`{name}`)" for name in columns)  # QUOTE: a NULL is not an empty text
    return f"SELECT id, SHA2(CONCAT_WS(',', {values}), 256) FROM {table} WHERE {condition}"
