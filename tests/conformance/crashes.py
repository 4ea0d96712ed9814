"""A process that dies right before or right after its n-th statement."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

from .rivals import unquoted

ROOT = Path(__file__).resolve().parents[2]


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
    places: tuple[tuple[str, int], ...]  # files and lines of the product's code that asked for it

    @property
    def writes(self) -> bool:
        return self.sql.startswith(("INSERT", "UPDATE", "DELETE"))


def statements_of(work: Callable[[], object]) -> list[Statement]:
    """The statements of an undisturbed run."""
    seen: list[Statement] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(Statement(unquoted(sql), connection.in_atomic_block, places_in_the_product()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        work()
    return seen


def places_in_the_product() -> tuple[tuple[str, int], ...]:
    """The lines of the product under way, the innermost first, not counting the database seam."""
    found = []
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(ROOT):
            name = file.relative_to(ROOT).as_posix()
            if not name.startswith(("tests/", "webhookhub/db/")):
                found.append((name, frame.f_lineno))
    return tuple(found)


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
        wrote = point.executed and not statement.in_transaction and statement.writes
        if wrote or not point.executed:
            yield point


def cut_short(prepare: Callable[[], Callable[[], object]]) -> Iterator[tuple[Point, Callable[[], object]]]:
    """Work prepared anew for each of its points, and ended there."""
    for point in points(statements_of(prepare())):
        work = prepare()
        crash(work, point)
        yield point, work


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
