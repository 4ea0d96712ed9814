"""Queries that a loop repeats: built and compiled once, then only executed with other values.

Building and compiling a query takes Django longer than most databases need to execute it, and is most of a delivery's
latency when few events arrive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import BigIntegerField, Expression, ExpressionWrapper, F, Model, UUIDField, Value
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

from . import vendors

Values = dict[str, Any]
UUID_FIELD: UUIDField[UUID, UUID] = UUIDField()


class Limit(int):
    """A maximum number of rows. Django writes it into the statement; here it is a parameter."""


# Stands for a limit while a query is compiled.
ANY_LIMIT = 2_147_480_007


class Slot(Value):
    """A placeholder for a value."""

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        return "%s", [self]


class _Compiled(NamedTuple):
    sql: str
    parameters: Sequence[Any]
    compiler: SQLCompiler
    converters: dict[int, Any]


class _Cache(threading.local):
    """Per thread, because a compiled query references the thread's connection."""

    def __init__(self) -> None:
        self.by_shape: dict[Any, _Compiled] = {}


class _CompiledQuery:
    """`build` gets a slot for each value, a list of slots for a list, and a number for a Limit."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self._cache = _Cache()

    def _prepare(self, values: Values) -> tuple[_Compiled, list[Any]]:
        values = {name: _padded(value) if _is_list(value) else value for name, value in values.items()}
        shape = tuple(len(value) if _is_list(value) else None for value in values.values())
        by_shape = self._cache.by_shape
        if shape not in by_shape:
            by_shape[shape] = self._compile(values)
        compiled = by_shape[shape]
        return compiled, [_value(parameter, values) for parameter in compiled.parameters]

    def _compile(self, values: Values) -> _Compiled:
        compiler = self._query(**{name: _slots(name, value) for name, value in values.items()}).get_compiler(
            connection=connection
        )
        sql, parameters = compiler.as_sql()
        fields = [column for column, *_ in compiler.select[: compiler.col_count]] if compiler.select else []
        # A limit comes after every condition.
        limits = [Slot((name, None)) for name, value in values.items() if isinstance(value, Limit)]
        sql = sql.replace(f"LIMIT {ANY_LIMIT}", "LIMIT %s")
        return _Compiled(sql, (*parameters, *limits), compiler, compiler.get_converters(fields))

    def _query(self, **slots: Any) -> Any:
        raise NotImplementedError


class CompiledSelect(_CompiledQuery):
    """`build` returns a queryset of values_list()."""

    def __call__(self, **values: Any) -> list[tuple[Any, ...]]:
        compiled, parameters = self._prepare(values)
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, parameters)
            rows: Any = cursor.fetchall()
        if compiled.converters:
            rows = map(tuple, compiled.compiler.apply_converters(rows, compiled.converters))
        return list(rows)

    def _query(self, **slots: Any) -> Any:
        return self._build(**slots).query


class CompiledUpdate(_CompiledQuery):
    """`build` returns a queryset and the new values of its rows (attribute name → value)."""

    def __call__(self, **values: Any) -> int:
        """Returns the number of matched rows."""
        compiled, parameters = self._prepare(values)
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, parameters)
            return int(cursor.rowcount)

    def _query(self, **slots: Any) -> Any:
        rows, new_values = self._build(**slots)
        query = rows.query.chain(UpdateQuery)
        query.add_update_values(new_values)
        return query


class Inserted(NamedTuple):
    """The number of new rows, and the automatic primary key if there is one new row."""

    rows: int
    pk: int


class CompiledInsert(_CompiledQuery):
    """Inserts the rows that a query selects, in one statement.

    `build` returns a queryset and the value of each new column (attribute name → expression on the queryset's rows).
    The statement locks the rows that it selects against changes: it inserts nothing for a row that is just changing.
    """

    def __init__(self, model: type[Model], build: Callable[..., Any]) -> None:
        super().__init__(build)
        self._model = model

    def __call__(self, **values: Any) -> Inserted:
        compiled, parameters = self._prepare(values)
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, parameters)
            return Inserted(int(cursor.rowcount), cursor.lastrowid or 0)

    def _compile(self, values: Values) -> _Compiled:
        compiled = super()._compile(values)
        _, new_values = self._build(**{name: _slots(name, value) for name, value in values.items()})
        columns = ", ".join(str(self._model._meta.get_field(name).column) for name in new_values)  # type: ignore[union-attr]
        lock = vendors.shared_lock_tail(connection)
        return compiled._replace(sql=f"INSERT INTO {self._model._meta.db_table} ({columns}) {compiled.sql} {lock}")

    def _query(self, **slots: Any) -> Any:
        rows, new_values = self._build(**slots)
        return rows.values_list(*new_values.values()).query


def as_number(foreign_key: str) -> Expression:
    """A foreign key that can be compared with a list of slots, which Django does not allow for related rows."""
    return ExpressionWrapper(F(foreign_key), output_field=BigIntegerField())


def columns_of(model: type[Model], *, without: str = "") -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields if field.attname != without)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _padded(values: Sequence[Any]) -> Sequence[Any]:
    """Padded with the last value to a length that is a power of two, so that few lengths have to be compiled."""
    if not values:
        raise ValueError("the list is empty: there is nothing to query")
    missing = (1 << (len(values) - 1).bit_length()) - len(values)
    return [*values, *[values[-1]] * missing]


def _slots(name: str, value: Any) -> Any:
    if _is_list(value):
        return [Slot((name, position)) for position in range(len(value))]
    return ANY_LIMIT if isinstance(value, Limit) else Slot((name, None))


def _value(parameter: Any, values: Values) -> Any:
    if not isinstance(parameter, Slot):
        return parameter
    name, position = parameter.value
    value = values[name] if position is None else values[name][position]
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, UUID):
        return UUID_FIELD.get_db_prep_value(value, connection)
    return int(value) if isinstance(value, Limit) else value  # the driver needs a plain int
