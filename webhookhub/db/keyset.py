"""Keyset paging: the next rows of a table in the order of a named index.

A page starts after the last row of the page before, so its cost does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import Model

from . import vendors

OPERATORS = {"": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
Row = TypeVar("Row")
AnyModel = TypeVar("AnyModel", bound=Model)


@dataclass(frozen=True)
class Page(Generic[Row]):
    """The rows of a page; `last` is the row to continue after, None at the end of the list."""

    rows: list[Row]
    last: Row | None


def page(
    fetch: Callable[[int], Iterable[Row]],
    limit: int,
    *,
    window: int,
    keep: Callable[[Sequence[Row]], Sequence[Row]] | None = None,
) -> Page[Row]:
    """One page of at most `limit` rows. `fetch` returns the next rows in order.

    `keep` filters by conditions that no index covers. Then the page examines `window` rows, and may be short or empty
    although more pages follow.
    """
    if keep is None:
        rows = list(fetch(limit + 1))
        return Page(rows[:limit], rows[limit - 1] if len(rows) > limit else None)
    examined = list(fetch(window))
    rows = list(keep(examined))
    if len(rows) > limit:
        return Page(rows[:limit], rows[limit - 1])
    return Page(rows, examined[-1] if len(examined) == window else None)


def rows(model: type[AnyModel], columns: Sequence[str] = ("*",), **query: Any) -> list[AnyModel]:
    """The next rows; takes the arguments of select()."""
    return list(model._default_manager.raw(*select(model, columns, **query)))


def ids(model: type[Model], **query: Any) -> list[int]:
    """The ids of the next rows; takes the arguments of select()."""
    with connection.cursor() as cursor:
        cursor.execute(*select(model, ["id"], **query))
        return [pk for (pk,) in cursor.fetchall()]


def select(
    model: type[Model],
    columns: Sequence[str],
    *,
    index: str | None,
    where: Mapping[str, Any],
    limit: int,
    order: Sequence[str] = ("id",),
    after: Sequence[Any] | None = None,
    descending: bool = True,
) -> tuple[str, list[Any]]:
    """SQL and parameters for the next rows after the values `after` of the `order` columns.

    `where` maps columns to values, with Django's suffixes such as `id__gte`; conditions whose value is None are left
    out. The SQL names the index (the primary key for None), because an optimizer may choose one that needs a sort and
    read the whole table for one page.
    """
    table = model._meta.db_table
    conditions, values = ["1 = 1"], []
    for name, value in where.items():
        if value is not None:
            condition, parameters = _condition(model, name, value)
            conditions.append(condition)
            values += parameters
    if after is not None:
        operator = "<" if descending else ">"
        *_, key = order
        prepared = [_prepared(model, column, value) for column, value in zip(order, after, strict=True)]
        if len(order) == 1:
            conditions.append(f"{key} {operator} %s")
            values += prepared
        else:
            # Not (time < … OR time = … AND id < …): an OR would hide the range from the optimizers.
            first = order[0]
            conditions.append(f"{first} {operator}= %s AND NOT ({first} = %s AND NOT {key} {operator} %s)")
            values += [prepared[0], *prepared]
    source = vendors.by_index(connection, table, index) if index else vendors.by_primary_key(connection, table, "t")
    ordering = ", ".join(f"{column} {'DESC' if descending else 'ASC'}" for column in order)
    sql = f"SELECT {', '.join(columns)} FROM {source} WHERE {' AND '.join(conditions)} ORDER BY {ordering} LIMIT %s"  # noqa: S608
    return sql, [*values, limit]


def _condition(model: type[Model], name: str, value: Any) -> tuple[str, list[Any]]:
    column, _, suffix = name.partition("__")
    if suffix != "in":
        return f"{column} {OPERATORS[suffix]} %s", [_prepared(model, column, value)]
    values = [_prepared(model, column, one) for one in value]
    return (f"{column} IN ({', '.join(['%s'] * len(values))})" if values else "1 = 0"), values


def _prepared(model: type[Model], column: str, value: Any) -> Any:
    """The value as this database stores it."""
    field: Any = model._meta.get_field(column)
    return field.get_db_prep_value(value, connection)
