"""Data steps of migrations on tables that grow with every event."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.operations.base import Operation

from .retry import one_statement


class InBatches(Operation):
    """Executes `statement` for one range of `key` after another, each in its own transaction on a server.

    The statement has the parameters `%(first)s` and `%(last)s`, such as `UPDATE … SET … WHERE id BETWEEN %(first)s
    AND %(last)s AND …`. After an interruption all is repeated, so a row that it has changed must not match again.
    Backwards it does nothing.
    """

    reduces_to_sql = False
    reversible = True
    # One transaction for each range, not one for all.
    atomic = False

    def __init__(self, table: str, statement: str, size: int = 1000, key: str = "id") -> None:
        self.table = table
        self.statement = statement
        self.size = size
        self.key = key

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT MIN({self.key}), MAX({self.key}) FROM {self.table}")  # noqa: S608
            first, last = cursor.fetchone()
        if first is not None:
            for start in range(first, last + 1, self.size):
                one_statement(partial(self._execute, connection, start))

    def _execute(self, connection: BaseDatabaseWrapper, start: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self.statement, {"first": start, "last": start + self.size - 1})

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        pass

    def describe(self) -> str:
        return f"Change rows of {self.table}, {self.size} at a time: {self.statement}"

    def deconstruct(self) -> Any:
        return self.__class__.__name__, [self.table, self.statement, self.size, self.key], {}
