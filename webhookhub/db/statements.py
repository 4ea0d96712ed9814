"""Whole batches in one statement: idempotent inserts and updates with a value per row.

Values pass through the model's own fields, so that every engine gets them in its own form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, models

from . import vendors
from .retry import one_statement

Row = Mapping[str, Any]


def insert_new(model: type[models.Model], rows: Sequence[Row]) -> None:
    """Insert `rows` (attribute name → value); a row whose unique key exists already changes nothing."""
    if not rows:
        return
    fields = [_field(model, name) for name in rows[0]]
    columns = ", ".join(field.column for field in fields)
    row = "(" + ", ".join(["%s"] * len(fields)) + ")"
    table = model._meta.db_table
    tail = vendors.insert_new_tail(connection, table, fields[0].column)
    sql = f"INSERT INTO {table} ({columns}) VALUES {', '.join([row] * len(rows))} {tail}"  # noqa: S608
    _execute(sql, _parameters(fields, rows))


def insert_new_selected(
    model: type[models.Model],
    rows: Sequence[Row],
    *,
    source: type[models.Model],
    key: str,
    copied: Mapping[str, str],
) -> None:
    """Like insert_new, with the columns `copied` (new column → source column) read from `source` by the server.

    `key` is the attribute of the rows that holds the source row's primary key.
    """
    if not rows:
        return
    fields = [_field(model, name) for name in rows[0]]
    columns = [field.column for field in fields]
    table, origin = model._meta.db_table, source._meta.db_table
    given = vendors.rows_as_table(connection, columns, len(rows))
    targets = ", ".join([*columns, *copied])
    values = ", ".join([*(f"given.{column}" for column in columns), *(f"{origin}.{name}" for name in copied.values())])
    on = f"{origin}.{_primary_key(source)} = given.{_field(model, key).column}"
    tail = vendors.insert_new_tail(connection, table, fields[0].column)
    # The WHERE is for one engine's parser, which would take the tail's ON for the join's.
    sql = f"INSERT INTO {table} ({targets}) SELECT {values} FROM {given} JOIN {origin} ON {on} WHERE 1 = 1 {tail}"  # noqa: S608
    _execute(sql, _parameters(fields, rows))


def update_each(
    model: type[models.Model],
    rows: Sequence[Row],
    *,
    match: Sequence[str],
    where: str,
    values: Mapping[str, str] | None = None,
) -> int:
    """Update many rows, each with its own values, in one statement; returns how many rows matched.

    Each row of `rows` names the attributes of `match`, which must equal the stored ones, and those to be set.
    `values` sets further columns to an SQL expression; `where` is an SQL condition that guards every row.
    """
    if not rows:
        return 0
    fields = [_field(model, name) for name in rows[0]]
    table = model._meta.db_table
    matched = {_field(model, name).column for name in match}
    on = " AND ".join(f"{table}.{column} = given.{column}" for column in sorted(matched))
    assignments = [(field.column, f"given.{field.column}") for field in fields if field.column not in matched]
    assignments += list((values or {}).items())
    given = vendors.rows_as_table(connection, [field.column for field in fields], len(rows))
    sql = vendors.update_from_given(connection, table, given, on, assignments, where)
    return _execute(sql, _parameters(fields, rows))


def delete_each(model: type[models.Model], keys: Sequence[Any]) -> int:
    """Delete rows by their primary keys in one statement, however few others there are and whoever holds those."""
    if not keys:
        return 0
    sql = vendors.delete_given(connection, model._meta.db_table, _primary_key(model), len(keys))
    return _execute(sql, list(keys))


def _execute(sql: str, parameters: list[Any]) -> int:
    def run() -> int:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return int(cursor.rowcount)

    return one_statement(run)


def _field(model: type[models.Model], name: str) -> Any:
    return model._meta.get_field(name.removesuffix("_id") if _is_relation(model, name) else name)


def _is_relation(model: type[models.Model], name: str) -> bool:
    return name.endswith("_id") and any(field.name == name.removesuffix("_id") for field in model._meta.concrete_fields)


def _primary_key(model: type[models.Model]) -> str:
    key = model._meta.pk
    assert key is not None
    return str(key.column)


def _parameters(fields: Sequence[Any], rows: Sequence[Row]) -> list[Any]:
    prepare = [field.get_db_prep_save for field in fields]
    return [prep(value, connection) for row in rows for prep, value in zip(prepare, row.values(), strict=True)]
