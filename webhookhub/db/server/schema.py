"""How migrations change the tables of a server while processes use them.

Statements on growing tables name the algorithm, so that the server refuses one that would copy or lock the table. Every
statement gives up its place in the queue for a table's lock after a second, and tries again later: while it waits, all
other statements on the table wait behind it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db.backends.mysql import schema
from django.db.utils import OperationalError

from webhookhub.db.errors import code_of
from webhookhub.db.growing import GROWING

LOCK_WAIT_SECONDS = 1
PAUSE_SECONDS = 1.0
GIVE_UP_SECONDS = 600.0
LOCK_WAIT_TIMEOUT = 1205

_CHANGE = re.compile(r"ALTER TABLE `(?P<table>\w+)` (?P<change>.*)", re.DOTALL)
_INDEX = re.compile(r"CREATE INDEX \S+ ON `(?P<table>\w+)`")
_INSTANT = re.compile(r"ADD COLUMN|ALTER COLUMN \S+ (?:SET|DROP) DEFAULT")
IN_PLACE = "ALGORITHM=INPLACE"
INSTANT = "ALGORITHM=INSTANT"
NO_LOCK = "LOCK=NONE"


def with_algorithm(sql: str, new_tables: frozenset[str] | set[str] = frozenset()) -> str:
    """The statement with the algorithm that the server has to use, if it is about a growing table that is not new."""
    if (match := _INDEX.match(sql)) and _is_growing(match["table"], new_tables):
        return f"{sql} {IN_PLACE} {NO_LOCK}"
    if (match := _CHANGE.match(sql)) and _is_growing(match["table"], new_tables):
        algorithm = INSTANT if _INSTANT.match(match["change"]) else f"{IN_PLACE}, {NO_LOCK}"
        return f"{sql}, {algorithm}"
    return sql


def _is_growing(table: str, new_tables: frozenset[str] | set[str]) -> bool:
    return table in GROWING and table not in new_tables


class SchemaEditor(schema.DatabaseSchemaEditor):
    """One for each migration."""

    # Not DROP INDEX, which takes no algorithm on one of the servers.
    sql_delete_index = "ALTER TABLE %(table)s DROP INDEX %(name)s"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._new_tables: set[str] = set()

    def __enter__(self) -> SchemaEditor:
        if not self.collect_sql:
            self._set_lock_wait(str(LOCK_WAIT_SECONDS))
        entered: SchemaEditor = super().__enter__()
        return entered

    def __exit__(self, *exception: Any) -> None:
        try:
            super().__exit__(*exception)
        finally:
            if not self.collect_sql and self.connection.connection is not None:
                self._set_lock_wait("DEFAULT")

    def create_model(self, model: Any) -> None:
        self._new_tables.add(model._meta.db_table)
        super().create_model(model)

    def execute(self, sql: Any, params: Sequence[Any] | None = ()) -> None:
        text = with_algorithm(str(sql), self._new_tables)
        give_up_at = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                super().execute(text, params)
                return
            except OperationalError as error:
                if code_of(error) != LOCK_WAIT_TIMEOUT or time.monotonic() > give_up_at:
                    raise
            # Statements that waited behind this one go first.
            time.sleep(PAUSE_SECONDS)

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """No other session reads or writes the table: it never sees it without a trigger that is being replaced."""
        self.execute(f"LOCK TABLES `{table}` WRITE", params=None)
        try:
            yield
        finally:
            self.execute("UNLOCK TABLES", params=None)

    def _set_lock_wait(self, seconds: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET SESSION lock_wait_timeout = {seconds}")
