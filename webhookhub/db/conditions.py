"""Conditions for check constraints whose SQL differs between engines.

They guard columns that other programs may fill by SQL: a value that the hub cannot read would break a page or a loop.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from . import vendors

# Longer than any delay that the hub accepts; the next attempt stays a date of the calendar.
MAX_DELAY = timedelta(days=30)


class _Condition(models.Func):
    arity = 1
    output_field = models.BooleanField()

    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        raise NotImplementedError

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper, **extra: Any) -> Any:  # type: ignore[override]
        [expression] = self.get_source_expressions()
        column, parameters = compiler.compile(expression)
        sql = self.sql(connection, column)
        # A form's validation puts a value in the place of the column.
        return sql, list(parameters) * sql.count("%s")


class IsUid(_Condition):
    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.is_uid_sql(connection, column)


class IsJSON(_Condition):
    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.is_json_sql(connection, column)


class IsSecondsList(_Condition):
    """As a SecondsListField stores it."""

    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.is_seconds_list_sql(connection, column)


class HasNoControls(_Condition):
    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.has_no_controls_sql(connection, column)


class IsTime(_Condition):
    """A date of the calendar from 1970 on; a server accepts 0000-00-00 and 2026-01-00 from a session that allows it."""

    def sql(self, connection: BaseDatabaseWrapper, column: str) -> str:
        return vendors.is_time_sql(connection, column)


def schedule_constraints(noun: str) -> list[models.BaseConstraint]:
    """For `base_delay` and `retry_delays`; either may be NULL where its column allows it."""
    delay = models.Q(base_delay__gte=timedelta(0), base_delay__lte=MAX_DELAY)
    return [
        models.CheckConstraint(condition=delay, name=f"chk_{noun}_base_delay"),
        models.CheckConstraint(condition=IsSecondsList("retry_delays"), name=f"chk_{noun}_retry_delays"),
    ]
