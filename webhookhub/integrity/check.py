"""What a check is: a name, the sentence that states the invariant, and a way to find the rows that break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event as Moment
from typing import Any

from django.db import connection

from webhookhub.db import vendors

from .walk import Batch, Table, Walk, walked, within

MOMENT_SECONDS = 0.25


@dataclass(frozen=True)
class Violation:
    """One row that breaks an invariant, and how."""

    table: str
    key: int | str
    what: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.what}"


@dataclass(frozen=True)
class Bounds:
    """What is asked of the live data: `now` is the database's, `grace` how long something may be under way."""

    now: datetime
    grace: timedelta


Found = tuple[int, list[Violation]]


@dataclass(frozen=True, kw_only=True)
class Check:
    name: str
    invariant: str
    warns: bool = False  # worth a look, but no broken promise

    def size(self, walk: Walk) -> int:
        """How many parts it has, for the progress bar."""
        raise NotImplementedError

    def parts(self, walk: Walk, bounds: Bounds) -> Iterator[Found]:
        """Part by part: how many rows were looked at, and those that break the invariant."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RowCheck(Check):
    """One statement per batch of a table that returns only the rows at fault, the key first.

    `sql` holds {walked} (the table with its alias), {within} (the condition of the batch) and, so that a batch costs
    the same whatever an optimizer believes of the tables, {join} for an inner join (it keeps the tables' order) and
    behind each joined table a name of hints.py (the index it is looked up by). It may hold %(before)s (the
    moment before which whatever was begun should have ended) and the names of `terms`, expressions that the engines
    spell differently. `says` is filled with the columns that the statement returns.

    The system is being written while it is read. One statement sees one moment, of all tables alike, and every check
    allows what the protocol allows at any single moment (a job whose saga is about to follow, a dead letter
    whose saga is about to end). A row at fault is nevertheless read once more, a moment later: only what is wrong
    both times is reported, so that an engine or a replica that shows two tables at two moments causes no false alarm.
    """

    table: Table
    sql: str
    says: str
    terms: Callable[[Bounds], dict[str, str]] = lambda bounds: {}

    def size(self, walk: Walk) -> int:
        return len(walk.batches(self.table))

    def parts(self, walk: Walk, bounds: Bounds) -> Iterator[Found]:
        for batch in walk.batches(self.table):
            suspects = self._read(batch, walk, bounds)
            if suspects:
                Moment().wait(MOMENT_SECONDS)
                suspected = {violation.key for violation in suspects}
                suspects = [violation for violation in self._read(batch, walk, bounds) if violation.key in suspected]
            yield batch.rows, suspects

    def _read(self, batch: Batch, walk: Walk, bounds: Bounds) -> list[Violation]:
        sql = self.sql.format(
            walked=walked(self.table),
            within=within(self.table),
            join=vendors.ordered_join(connection),
            **walk.hints,
            **self.terms(bounds),
        )
        before = connection.ops.adapt_datetimefield_value(bounds.now - bounds.grace)
        with connection.cursor() as cursor:
            # One statement outside any transaction: no lock is taken and no old version of a row kept alive for long.
            cursor.execute(sql, {"low": batch.low, "high": batch.high, "before": before})
            columns = [column[0] for column in cursor.description]
            return [self._violation(dict(zip(columns, row, strict=True))) for row in cursor.fetchall()]

    def _violation(self, row: dict[str, Any]) -> Violation:
        return Violation(self.table.name, row[self.table.key], self.says.format(**row))


@dataclass(frozen=True, kw_only=True)
class Question(Check):
    """A question about something other than rows by the million."""

    ask: Callable[[Bounds], Found]

    def size(self, walk: Walk) -> int:
        return 1

    def parts(self, walk: Walk, bounds: Bounds) -> Iterator[Found]:
        yield self.ask(bounds)
