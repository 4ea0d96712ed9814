"""Executes one statement with less overhead than Django's cursors, for statements that a loop repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections


class Executed(NamedTuple):
    rows: Sequence[tuple[Any, ...]]
    # The number of matched, inserted or read rows.
    affected: int
    # The automatic primary key if one row was inserted.
    pk: int


def execute(sql: str, parameters: Sequence[Any]) -> Executed:
    """Executes a statement of this thread's connection; a literal % in `sql` is written as %%."""
    connection: Any = connections[DEFAULT_DB_ALIAS]
    # Wrappers and the query log, which Django's cursors support, are used by tests.
    if hasattr(connection, "execute") and not connection.execute_wrappers and not connection.queries_logged:
        return Executed(*connection.execute(sql, parameters))
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        rows = cursor.fetchall() if cursor.description else ()
        return Executed(rows, cursor.rowcount, cursor.lastrowid or 0)
