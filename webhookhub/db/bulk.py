"""Whole batches in one statement: idempotent inserts and updates with a value per row.

Values pass through the model's fields, so that every engine gets them in its own form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

from django.db import DEFAULT_DB_ALIAS, IntegrityError, connection, connections, models

from . import vendors
from .errors import Kind, kind_of
from .execute import execute
from .fields import ExactTextField, JSONTextField, WordField
from .retry import one_statement

Row = Mapping[str, Any]
# The type whose values a field stores as they are; asking the field takes longer than the rest of an insert.
UNCHANGED: dict[type[models.Field[Any, Any]], type] = {
    models.BigAutoField: int,
    models.IntegerField: int,
    models.BigIntegerField: int,
    models.PositiveIntegerField: int,
    models.PositiveSmallIntegerField: int,
    models.ForeignKey: int,
    models.CharField: str,
    models.TextField: str,
    ExactTextField: str,
    JSONTextField: str,
    WordField: str,
}


def insert_new(model: type[models.Model], rows: Sequence[Row], *, key: Sequence[str], look_first: bool = False) -> int:
    """Inserts `rows` (attribute name → value) except those whose unique `key` (attribute names) exists already.

    A plain INSERT, which needs only the INSERT privilege on every server. `look_first` is for rows that often exist
    already: a query first is cheaper than an error. Returns the number of new rows.
    """
    return len(insert_which(model, rows, key=key, look_first=look_first))


def insert_which(
    model: type[models.Model],
    rows: Sequence[Row],
    *,
    key: Sequence[str],
    other_key: Sequence[str] = (),
    look_first: bool = False,
) -> list[Row]:
    """Like insert_new; returns the rows that this call has inserted.

    Rows whose `other_key`, another unique key, exists already are left out, too.
    """
    new = _first_of_each_key(rows, key)
    if other_key:
        new = _first_of_each_key(new, other_key)
    return _insert(model, _missing(model, new, key) if look_first else new, key, _insert_values, other_key)


def insert_one(model: type[models.Model], row: Row, *, key: Sequence[str], other_key: Sequence[str] = ()) -> int | None:
    """Inserts one row; returns its automatic primary key, or None if one of its unique keys exists already."""
    primary_keys: list[int] = []

    def insert(model: type[models.Model], rows: Sequence[Row]) -> None:
        primary_keys.append(_insert_values(model, rows))

    return primary_keys[0] if _insert(model, [row], key, insert, other_key) else None


def insert_new_selected(
    model: type[models.Model],
    rows: Sequence[Row],
    *,
    key: Sequence[str],
    source: type[models.Model],
    source_id: str,
    copied: Mapping[str, str],
    where: str,
) -> None:
    """Like insert_new, with the columns `copied` (new column → source column) read from `source` by the server.

    `source_id` is the attribute of the rows that holds the source row's primary key. Rows for which the SQL condition
    `where` on the table `given` of these rows is not true are left out.
    """
    origin = source._meta.db_table

    def select(model: type[models.Model], rows: Sequence[Row]) -> None:
        fields = [_field(model, name) for name in rows[0]]
        columns = [field.column for field in fields]
        table = model._meta.db_table
        given = vendors.rows_as_table(connection, columns, len(rows))
        targets = ", ".join([*columns, *copied])
        values = ", ".join([*(f"given.{name}" for name in columns), *(f"{origin}.{name}" for name in copied.values())])
        on = f"{origin}.{_primary_key(source)} = given.{_field(model, source_id).column}"
        # The condition only avoids most errors for existing rows; the unique key is what guarantees it.
        there = f"SELECT 1 FROM {table} there WHERE {_same_key(model, key, 'there')}"  # noqa: S608
        # In the order of the given rows, whatever the optimizer prefers.
        columns_of_rows = f"SELECT {vendors.join_order_hint(connection)} {values} FROM {given}"  # noqa: S608
        join = f"{vendors.ordered_join(connection)} {origin} ON {on}"
        selected = f"{columns_of_rows} {join} WHERE {where} AND NOT EXISTS ({there})"
        _execute(f"INSERT INTO {table} ({targets}) {selected}", _parameters(fields, rows))

    _insert(model, _first_of_each_key(rows, key), key, select)


def _insert(
    model: type[models.Model],
    rows: Sequence[Row],
    key: Sequence[str],
    insert: Callable[[type[models.Model], Sequence[Row]], object],
    other_key: Sequence[str] = (),
) -> list[Row]:
    """Inserts the rows, and after a duplicate key again the missing ones; returns the rows that it has inserted.

    Each repetition has fewer rows, or raises if another key than these is the duplicate. The server undoes exactly the
    refused statement, so this needs no savepoint within a transaction.
    """
    left = list(rows)
    while left:
        try:
            insert(model, left)
        except IntegrityError as error:
            before = len(left)
            if kind_of(error) is Kind.DUPLICATE:
                left = _missing(model, left, key)
                left = _missing(model, left, other_key) if other_key else left
            if len(left) == before:
                raise
        else:
            break
    return left


def _insert_values(model: type[models.Model], rows: Sequence[Row]) -> int:
    """Returns the automatic primary key of a single row."""
    fields = [_field(model, name) for name in rows[0]]
    columns = ", ".join(field.column for field in fields)
    row = "(" + ", ".join(["%s"] * len(fields)) + ")"
    sql = f"INSERT INTO {model._meta.db_table} ({columns}) VALUES {', '.join([row] * len(rows))}"  # noqa: S608
    return one_statement(lambda: execute(sql, _parameters(fields, rows))).pk


def _first_of_each_key(rows: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """Without rows that repeat an earlier row's key; NULL equals nothing."""
    first: dict[tuple[Any, ...], Row] = {}
    for position, row in enumerate(rows):
        value = tuple(row[name] for name in key)
        first.setdefault((None, position) if None in value else value, row)
    return list(first.values())


def _missing(model: type[models.Model], rows: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """The rows whose key is not stored. The server compares: equality depends on its collations."""
    comparable = [row_no for row_no, row in enumerate(rows) if all(row[name] is not None for name in key)]
    if not comparable:
        return list(rows)
    fields = [_field(model, name) for name in key]
    columns = [_prepared(field, [rows[n][name] for n in comparable]) for field, name in zip(fields, key, strict=True)]
    parameters = [value for values in zip(comparable, *columns, strict=True) for value in values]
    given = vendors.rows_as_table(connection, ["row_no", *(field.column for field in fields)], len(comparable))
    join = f"{vendors.ordered_join(connection)} {model._meta.db_table} there ON {_same_key(model, key, 'there')}"
    there = {row_no for (row_no,) in execute(f"SELECT given.row_no FROM {given} {join}", parameters).rows}  # noqa: S608
    return [row for row_no, row in enumerate(rows) if row_no not in there]


def _same_key(model: type[models.Model], key: Sequence[str], alias: str) -> str:
    columns = [_field(model, name).column for name in key]
    return " AND ".join(f"{alias}.{column} = given.{column}" for column in columns)


def update_each(
    model: type[models.Model],
    rows: Sequence[Row],
    *,
    match: Sequence[str],
    where: str,
    values: Mapping[str, str] | None = None,
) -> int:
    """Updates many rows, each with its own values, in one statement; returns the number of matched rows.

    Each row of `rows` has the attributes of `match`, the primary key first, which must equal the stored ones, and the
    attributes to set. Not a join with a table of these values: a server takes four times as long to read that.
    `values` sets further columns to an SQL expression; `where` is an SQL condition that guards every row.
    """
    if not rows:
        return 0
    key, *others = match
    first: dict[int, Row] = {}
    repeated = [row for row in rows if first.setdefault(row[key], row) is not row]
    ids = list(first)
    fields = {name: _field(model, name) for name in rows[0]}
    prepared = {name: _prepared(fields[name], [row[name] for row in first.values()]) for name in fields if name != key}
    column = fields[key].column
    parameters: list[Any] = []
    sets = [
        f"{fields[name].column} = {_by_value(column, _groups(ids, new), parameters)}"
        for name, new in prepared.items()
        if name not in match
    ]
    sets += [f"{name} = {sql}" for name, sql in (values or {}).items()]
    equal = "".join([f"{fields[name].column} = %s AND " for name in others])
    stored_values = zip(*(prepared[name] for name in others), strict=True) if others else repeat((), len(ids))
    conditions = []
    for stored, group in _groups(ids, stored_values).items():
        conditions.append(f"({equal}{column} IN ({_numbers(group)}))")
        parameters += stored
    target = vendors.updated_by_primary_key(connection, model._meta.db_table)
    sql = f"UPDATE {target} SET {', '.join(sets)} WHERE ({' OR '.join(conditions)}) AND {where}"  # noqa: S608
    changed = _execute(sql, parameters)
    # A row may be named twice, as with two leases of one job: at most one of them matches.
    return changed + update_each(model, repeated, match=match, where=where, values=values)


def _by_value(column: str, ids_by_value: Mapping[Any, Sequence[int]], parameters: list[Any]) -> str:
    """An SQL expression for each row's value; most values are the same for many rows."""
    parameters += ids_by_value
    if len(ids_by_value) == 1:
        return "%s"
    cases = [f"WHEN {column} IN ({_numbers(ids)}) THEN %s" for ids in ids_by_value.values()]
    return f"CASE {' '.join(cases)} END"


def _groups(ids: Sequence[int], values: Iterable[Any]) -> dict[Any, list[int]]:
    groups: dict[Any, list[int]] = {}
    for pk, value in zip(ids, values, strict=True):
        groups.setdefault(value, []).append(pk)
    return groups


def _numbers(ids: Sequence[int]) -> str:
    """Whole numbers need no escaping."""
    return ",".join([str(int(pk)) for pk in ids])


def add_up(
    model: type[models.Model],
    key: Sequence[str],
    added: Sequence[str],
    rows: Mapping[tuple[Any, ...], Sequence[int]],
) -> None:
    """Adds whole numbers to the columns `added` of the rows with these keys, up to the largest that a column can hold,
    and inserts missing rows.

    The columns have a default of 0 in the database. Rows are written in the order of their keys, which prevents
    deadlocks between concurrent calls.
    """
    if not rows:
        return
    fields = [_field(model, name) for name in key]
    table = model._meta.db_table
    # Columns without any value are left out: for hundreds of rows, parsing them takes longer than adding.
    used = [position for position, column in enumerate(map(any, zip(*rows.values(), strict=True))) if column]
    if not used:
        return
    # Whole numbers need no escaping; other parts of keys repeat and are prepared once.
    prepared = [
        {value: None if type(value) is int else field.get_db_prep_save(value, connection) for value in set(part)}
        for field, part in zip(fields, zip(*rows, strict=True), strict=True)
    ]
    parameters: list[Any] = []
    values = []
    for row_key in sorted(rows):
        places = [str(value) if type(value) is int else "%s" for value in row_key]
        parameters += [ready[value] for ready, value in zip(prepared, row_key, strict=True) if type(value) is not int]
        counts = rows[row_key]
        numbers = [str(min(int(counts[position]), vendors.MAX_BIGINT)) for position in used]
        values.append(f"({', '.join(places)}, {', '.join(numbers)})")
    keys, sums = [field.column for field in fields], [added[position] for position in used]
    columns = ", ".join([*keys, *sums])
    tail = vendors.add_up_tail(connection, table, keys, sums)
    _execute(f"INSERT INTO {table} ({columns}) VALUES {', '.join(values)} {tail}", parameters)  # noqa: S608


def delete_each(model: type[models.Model], keys: Sequence[Any]) -> int:
    """Deletes rows by their primary keys in one statement, without waiting for locks on other rows."""
    if not keys:
        return 0
    sql = vendors.delete_given(connection, model._meta.db_table, _primary_key(model), len(keys))
    return _execute(sql, list(keys))


def shared_lock(model: type[models.Model], keys: Sequence[Any]) -> set[Any]:
    """The primary keys, out of `keys`, that exist. Until the end of the transaction no one can delete these rows."""
    if not keys:
        return set()
    key = _primary_key(model)
    places = ", ".join(["%s"] * len(keys))
    lock = vendors.shared_lock_tail(connection)
    sql = f"SELECT {key} FROM {model._meta.db_table} WHERE {key} IN ({places}) {lock}"  # noqa: S608
    return {pk for (pk,) in execute(sql, keys).rows}


def _execute(sql: str, parameters: Sequence[Any]) -> int:
    """Returns the number of changed rows."""
    return one_statement(lambda: execute(sql, parameters)).affected


@cache
def _field(model: type[models.Model], attribute: str) -> Any:
    """The field of a column, named as `saga_id` or `saga`. Looked up for every column of every statement."""
    return next(field for field in model._meta.concrete_fields if attribute in (field.attname, field.name))


def _primary_key(model: type[models.Model]) -> str:
    key = model._meta.pk
    assert key is not None
    return str(key.column)


def _parameters(fields: Sequence[Any], rows: Sequence[Row]) -> list[Any]:
    columns = [_prepared(field, [row[name] for row in rows]) for field, name in zip(fields, rows[0], strict=True)]
    return [value for row in zip(*columns, strict=True) for value in row]


def _prepared(field: Any, values: Sequence[Any]) -> list[Any]:
    """The values in the engine's form. A value identical to the one before, as times and statuses in a batch often are,
    is prepared only once: that halves the time of an insert."""
    unchanged = UNCHANGED.get(type(field))
    current = connections[DEFAULT_DB_ALIAS]
    prepared: list[Any] = []
    for position, value in enumerate(values):
        if value is None or type(value) is unchanged:
            prepared.append(value)
        elif position > 0 and value is values[position - 1]:
            prepared.append(prepared[-1])
        else:
            prepared.append(field.get_db_prep_save(value, current))
    return prepared
