"""Conditions for check constraints whose SQL differs between engines.

They guard columns that other programs may fill by SQL: a value that the hub cannot read would break a page or a loop.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from . import vendors


class _Condition(models.Func):
    arity = 1
    output_field = models.BooleanField()

    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        raise NotImplementedError

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper, **extra: Any) -> Any:  # type: ignore[override]
        [expression] = self.get_source_expressions()
        column, parameters = compiler.compile(expression)
        assert not parameters, "only a column can be checked"
        return self.sql(connection, column), []


class IsUid(_Condition):
    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.is_uid_sql(connection, column)


class IsJSON(_Condition):
    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.is_json_sql(connection, column)


class IsTime(_Condition):
    """A date of the calendar from 1970 on; a server accepts 0000-00-00 and 2026-01-00 from a session that allows it."""

    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.is_time_sql(connection, column)
