"""Simulates a process that is killed before or after its n-th statement."""

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
    """Not an Exception, so that the product does not handle it."""


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
    places: tuple[tuple[str, int], ...]  # files and lines of the product on the call stack

    @property
    def writes(self) -> bool:
        return self.sql.startswith(("INSERT", "UPDATE", "DELETE"))


def statements_of(work: Callable[[], object]) -> list[Statement]:
    """The statements of an uninterrupted run."""
    seen: list[Statement] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(Statement(unquoted(sql), connection.in_atomic_block, places_in_the_product()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        work()
    return seen


def places_in_the_product() -> tuple[tuple[str, int], ...]:
    """The lines of the product on the call stack, innermost first, without webhookhub/db."""
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
    """Before and after every statement. After an auto-committed statement and before the next one is the same point;
    they differ when a commit lies between."""
    for position, _ in enumerate(statements, 1):
        if position == 1 or statements[position - 2].in_transaction:
            yield Point(position, executed=False)
        yield Point(position, executed=True)


def points_of_change(statements: list[Statement]) -> Iterator[Point]:
    """Only the points after a write or after a transaction, at which the database differs."""
    for point in points(statements):
        statement = statements[point.statement - 1]
        wrote = point.executed and not statement.in_transaction and statement.writes
        if wrote or not point.executed:
            yield point


def interrupted(prepare: Callable[[], Callable[[], object]]) -> Iterator[tuple[Point, Callable[[], object]]]:
    """For each point: the work, prepared again and interrupted there."""
    for point in points(statements_of(prepare())):
        work = prepare()
        crash(work, point)
        yield point, work


def crash(work: Callable[[], object], point: Point) -> None:
    """Run `work` until `point`; an open transaction is lost."""
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
        connection.close()  # a killed process has no connection
        return
    raise AssertionError(f"the work ended before {point}")
