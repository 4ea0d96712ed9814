"""The database's clock, which decides what is due and what has expired.

Processes on several machines share this one clock; their own clocks only measure durations.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper

from . import vendors
from .execute import execute

# How often a process reads the database's clock for its estimate.
MEASURE_SECONDS = 300.0
# If the process's two clocks disagree by more, the machine was suspended or its clock was set.
MAX_JUMP_SECONDS = 1.0


def now() -> datetime:
    """The current time of the database, in UTC."""
    ((value,),) = execute(f"SELECT {now_sql()}", ()).rows
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.replace(tzinfo=UTC)  # type: ignore[no-any-return]


def now_sql() -> str:
    """The database's time as part of a statement that has parameters."""
    return vendors.utc_now_sql(connection).replace("%", "%%")


class Estimate:
    """The database's time without a statement: measured from time to time, and continued by the monotonic clock.

    A process whose own clock is wrong then still signs requests with a time that receivers accept.
    """

    def __init__(self) -> None:
        self._measured: datetime | None = None
        self._monotonic = 0.0
        self._wall = 0.0

    def measure_if_due(self) -> None:
        """Read the database's clock, unless that was done recently."""
        if self._measured is not None and self._age() < MEASURE_SECONDS and not self._has_jumped():
            return
        started = time.monotonic()
        self._measured = now()
        # The middle: it is not known when in between the server has read its clock.
        self._monotonic = (started + time.monotonic()) / 2
        self._wall = time.time() - self._age()

    def now(self) -> datetime:
        """The estimated time of the database. `measure_if_due` must have been called before."""
        if self._measured is None:
            raise RuntimeError("the database's clock has not been read yet")
        return self._measured + timedelta(seconds=self._age())

    def _age(self) -> float:
        return time.monotonic() - self._monotonic

    def _has_jumped(self) -> bool:
        return abs(time.time() - self._wall - self._age()) > MAX_JUMP_SECONDS


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
