"""Queries that a loop asks at every turn: built and compiled once, and from then on only filled in.

To build a query and to compile it takes Django longer than most databases need to answer it. What a delivery waits for
is mostly that, where few come at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Model, UUIDField, Value
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

Given = dict[str, Any]
M = TypeVar("M", bound=Model)
UUID_FIELD: UUIDField[UUID, UUID] = UUIDField()


class Limit(int):
    """How many rows at most. Django writes it into the statement; here it is filled in like the values."""


# Stands for a limit while a query is compiled.
ANY_LIMIT = 2_147_480_007


class Slot(Value):
    """Takes the place of a value until there is one."""

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        return "%s", [self]


class _Compiled(NamedTuple):
    sql: str
    parameters: Sequence[Any]
    compiler: SQLCompiler
    converters: dict[int, Any]


class _OfThisThread(threading.local):
    """What is compiled holds on to its connection, which goes with its thread."""

    def __init__(self) -> None:
        self.by_shape: dict[Any, _Compiled] = {}


class _Kept:
    """`build` gets a slot for each value, a list of them for a list, and a number for a Limit."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self._compiled = _OfThisThread()

    def _filled(self, given: Given) -> tuple[_Compiled, list[Any]]:
        given = {name: _padded(value) if _is_list(value) else value for name, value in given.items()}
        shape = tuple(len(value) if _is_list(value) else None for value in given.values())
        kept = self._compiled.by_shape
        if shape not in kept:
            kept[shape] = self._compile(given)
        compiled = kept[shape]
        return compiled, [_value(parameter, given) for parameter in compiled.parameters]

    def _compile(self, given: Given) -> _Compiled:
        compiler = self._query(**{name: _slots(name, value) for name, value in given.items()}).get_compiler(
            connection=connection
        )
        sql, parameters = compiler.as_sql()
        fields = [column for column, *_ in compiler.select[: compiler.col_count]] if compiler.select else []
        # A limit comes after every condition.
        limits = [Slot((name, None)) for name, value in given.items() if isinstance(value, Limit)]
        sql = sql.replace(f"LIMIT {ANY_LIMIT}", "LIMIT %s")
        return _Compiled(sql, (*parameters, *limits), compiler, compiler.get_converters(fields))

    def _query(self, **slots: Any) -> Any:
        raise NotImplementedError


class CompiledSelect(_Kept):
    """`build` returns a queryset of values_list()."""

    def __call__(self, **given: Any) -> list[tuple[Any, ...]]:
        compiled, parameters = self._filled(given)
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, parameters)
            rows: Any = cursor.fetchall()
        if compiled.converters:
            rows = map(tuple, compiled.compiler.apply_converters(rows, compiled.converters))
        return list(rows)

    def _query(self, **slots: Any) -> Any:
        return self._build(**slots).query


class CompiledUpdate(_Kept):
    """`build` returns a queryset and what its rows get (attribute name → value)."""

    def __call__(self, **given: Any) -> int:
        """Returns how many rows there were."""
        compiled, parameters = self._filled(given)
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, parameters)
            return int(cursor.rowcount)

    def _query(self, **slots: Any) -> Any:
        rows, values = self._build(**slots)
        query = rows.query.chain(UpdateQuery)
        query.add_update_values(values)
        return query


def columns_of(model: type[Model], *, without: str = "") -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields if field.attname != without)


def as_stored(model: type[M], columns: Sequence[str], row: Sequence[Any]) -> M:
    """The object that a row with these columns stands for."""
    return model.from_db(connection.alias, columns, row)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _padded(values: Sequence[Any]) -> Sequence[Any]:
    """To a power of two, with the last one again: a list has few lengths then, and each is compiled once."""
    if not values:
        raise ValueError("nothing is in an empty list: there is nothing to ask")
    missing = (1 << (len(values) - 1).bit_length()) - len(values)
    return [*values, *[values[-1]] * missing]


def _slots(name: str, value: Any) -> Any:
    if _is_list(value):
        return [Slot((name, position)) for position in range(len(value))]
    return ANY_LIMIT if isinstance(value, Limit) else Slot((name, None))


def _value(parameter: Any, given: Given) -> Any:
    if not isinstance(parameter, Slot):
        return parameter
    name, position = parameter.value
    value = given[name] if position is None else given[name][position]
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, UUID):
        return UUID_FIELD.get_db_prep_value(value, connection)
    return int(value) if isinstance(value, Limit) else value  # a driver writes only a plain number as a number
