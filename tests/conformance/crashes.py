"""A process that dies right before or right after its n-th statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection

from .rivals import unquoted


class Crash(BaseException):
    """Not an Exception: what kills a process is not handled by it."""


@dataclass(frozen=True)
class Point:
    statement: int
    executed: bool

    def __str__(self) -> str:
        return f"{'after' if self.executed else 'before'} statement {self.statement}"


@dataclass(frozen=True)
class Statement:
    sql: str
    in_transaction: bool


def statements_of(work: Callable[[], object]) -> list[Statement]:
    """The statements of an undisturbed run."""
    seen: list[Statement] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(Statement(unquoted(sql), connection.in_atomic_block))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        work()
    return seen


def points(statements: list[Statement]) -> Iterator[Point]:
    """Before and after every statement. What leaves the database in the same state is one point: after a statement
    that commits by itself and before the next one. Within a transaction they differ if the commit lies between."""
    for number, _ in enumerate(statements, 1):
        if number == 1 or statements[number - 2].in_transaction:
            yield Point(number, executed=False)
        yield Point(number, executed=True)


def points_of_change(statements: list[Statement]) -> Iterator[Point]:
    """Only those that leave the database as no other point does: after a write, or after a transaction."""
    for point in points(statements):
        statement = statements[point.statement - 1]
        wrote = point.executed and not statement.in_transaction and not statement.sql.startswith("SELECT")
        if wrote or not point.executed:
            yield point


def crash(work: Callable[[], object], point: Point) -> None:
    """Run `work` until `point`. A transaction left open there is lost, what was committed is not."""
    seen = 0

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == point.statement and not point.executed:
            raise Crash
        result = execute(sql, params, many, context)
        if seen == point.statement:
            raise Crash
        return result

    try:
        with connection.execute_wrapper(watch):
            work()
    except Crash:
        connection.close()  # a process that is gone holds no connection
        return
    raise AssertionError(f"the work ended before {point}")
