"""The database's clock, which decides what is due and what has expired.

Processes on several machines share this one clock; their own clocks only measure durations.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper

from . import vendors


def now() -> datetime:
    """The current time of the database, in UTC."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {vendors.utc_now_sql(connection)}")
        value = cursor.fetchone()[0]
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.replace(tzinfo=UTC)  # type: ignore[no-any-return]


def now_sql() -> str:
    """The database's time as part of a statement that has parameters."""
    return vendors.utc_now_sql(connection).replace("%", "%%")


class _DatabaseFunction(models.Func):
    template = "%(sql)s"

    def sql(self, connection: BaseDatabaseWrapper) -> str:
        raise NotImplementedError

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper, **extra: Any) -> Any:  # type: ignore[override]
        return self.sql(connection).replace("%", "%%"), []  # statements with parameters need %% for %


class UtcNow(_DatabaseFunction):
    """A column default: the current time in UTC, independent of the session's time zone."""

    output_field = models.DateTimeField()

    def sql(self, connection: BaseDatabaseWrapper) -> str:
        return vendors.utc_now_sql(connection)


class UtcLater(models.Func):
    """The current time in UTC plus a number of microseconds, an expression."""

    output_field = models.DateTimeField()

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper, **extra: Any) -> Any:  # type: ignore[override]
        _, parameters = compiler.compile(self.get_source_expressions()[0])
        return vendors.utc_later_sql(connection), parameters


class NewUid(_DatabaseFunction):
    """A column default: a new UUID, for rows inserted by other programs without one."""

    output_field = models.UUIDField()

    def sql(self, connection: BaseDatabaseWrapper) -> str:
        return vendors.new_uid_sql(connection)
