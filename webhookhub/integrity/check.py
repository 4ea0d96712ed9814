"""A check: a name, the invariant in one sentence, and a way to find the rows that violate it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event
from typing import Any

from django.db import connection

from webhookhub.db import vendors

from .tables import Batch, Batches, Table

RECHECK_SECONDS = 0.25


@dataclass(frozen=True)
class Violation:
    """A row that violates an invariant, and how."""

    table: str
    key: int | str
    what: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.what}"


@dataclass(frozen=True)
class Bounds:
    """`now` is the database's time, `grace` how long work may be in progress."""

    now: datetime
    grace: timedelta


# The number of rows examined, and the violations.
Found = tuple[int, list[Violation]]


@dataclass(frozen=True, kw_only=True)
class Check:
    name: str
    invariant: str
    is_warning: bool = False

    def size(self, batches: Batches) -> int:
        """The number of parts, for the progress bar."""
        raise NotImplementedError

    def parts(self, batches: Batches, bounds: Bounds) -> Iterator[Found]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RowCheck(Check):
    """One statement per batch of a table, which returns only the rows that violate the invariant.

    `sql` contains {table} (the table with its alias), {in_batch} (the condition of the batch), {join} for an inner join
    in the given order, and a name of tables.HINTS behind each joined table. It may contain %(before)s (the time before
    which work should have ended) and the names of `terms`, expressions that the engines spell differently. `message` is
    formatted with the columns that the statement returns. Rows for which `violates` is False are no violations.

    The data changes while it is read. One statement sees a consistent snapshot, and every check allows the states that
    the protocol passes through (a job whose saga follows, a dead letter whose saga follows). A violation is read again
    after a short wait and reported only if it is still there, in case an engine or a replica shows two tables at
    different times.
    """

    table: Table
    sql: str
    message: str
    terms: Callable[[Bounds], dict[str, str]] = lambda bounds: {}
    violates: Callable[[dict[str, Any]], bool] = lambda row: True

    def size(self, batches: Batches) -> int:
        return len(batches.of(self.table))

    def parts(self, batches: Batches, bounds: Bounds) -> Iterator[Found]:
        for batch in batches.of(self.table):
            violations = self._read(batch, batches.hints, bounds)
            if violations:
                Event().wait(RECHECK_SECONDS)
                keys = {violation.key for violation in violations}
                violations = [again for again in self._read(batch, batches.hints, bounds) if again.key in keys]
            yield batch.rows, violations

    def _read(self, batch: Batch, hints: dict[str, str], bounds: Bounds) -> list[Violation]:
        sql = self.sql.format(
            table=self.table.by_primary_key,
            in_batch=self.table.in_batch,
            join=vendors.ordered_join(connection),
            **hints,
            **self.terms(bounds),
        )
        before = connection.ops.adapt_datetimefield_value(bounds.now - bounds.grace)
        with connection.cursor() as cursor:
            # Outside of a transaction: no locks, and no old row versions kept for long.
            cursor.execute(sql, {"low": batch.low, "high": batch.high, "before": before})
            columns = [column[0] for column in cursor.description]
            rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        return [self._violation(row) for row in rows if self.violates(row)]

    def _violation(self, row: dict[str, Any]) -> Violation:
        return Violation(self.table.name, row[self.table.key], self.message.format(**row))


@dataclass(frozen=True, kw_only=True)
class FunctionCheck(Check):
    """A check that is not about the rows of one table."""

    find: Callable[[Bounds], Found]

    def size(self, batches: Batches) -> int:
        return 1

    def parts(self, batches: Batches, bounds: Bounds) -> Iterator[Found]:
        yield self.find(bounds)
