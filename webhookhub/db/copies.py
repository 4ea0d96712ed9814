"""Triggers that keep columns of rows equal to those of the row that they share, such as subscriptions and endpoints.

The shared row is what programs write. The copies are for statements that must not join, and for programs that do not
know the shared row: what such a program writes into a copy goes to the shared row if no other row shares it, and
otherwise the row gets a shared row of its own. So it changes one row and nothing else, as before.

A server refuses a trigger that changes the table of the statement that it belongs to. So each change first looks
whether there is anything to change: the copying of a copy ends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from . import vendors
from .triggers import unchanged


@dataclass(frozen=True)
class Copies:
    """`columns` of the rows of `table` are copies of those of the row of `shared` with the id `key`.

    `identity` never changes, and is equal, too. A row whose `ended` is set keeps its last copies. A new shared row has
    no `state`, and has the columns `made` (column → name of an SQL function of vendors).
    """

    table: str
    shared: str
    key: str
    columns: Sequence[str]
    identity: Sequence[str]
    ended: str
    state: Sequence[str]
    made: Mapping[str, str]

    def same(self, connection: BaseDatabaseWrapper, columns: Sequence[str], one: str, other: str) -> str:
        return " AND ".join(vendors.same_bytes(connection, f"{one}.{name}", f"{other}.{name}") for name in columns)

    def shared_is_same(self, connection: BaseDatabaseWrapper) -> str:
        """SQL: the shared row of NEW has the same values."""
        same = self.same(connection, [*self.columns, *self.identity], "shared", "NEW")
        return f"EXISTS (SELECT 1 FROM {self.shared} shared WHERE shared.id = NEW.{self.key} AND {same})"  # noqa: S608

    def is_shared(self) -> str:
        """SQL: another row has the same shared row."""
        return (
            f"EXISTS (SELECT 1 FROM {self.table} other WHERE other.{self.key} = NEW.{self.key} "  # noqa: S608
            f"AND other.id <> NEW.id AND other.{self.ended} IS NULL)"
        )

    def differs(self, connection: BaseDatabaseWrapper) -> str:
        """SQL: this update has changed a copy, and not because the shared row has changed."""
        changed = unchanged(connection, self.columns)
        return f"NEW.{self.ended} IS NULL AND NOT ({changed}) AND NOT {self.shared_is_same(connection)}"

    def adopt(self, connection: BaseDatabaseWrapper, name: str, event: str, condition: str) -> str:
        """A trigger that gives a row a new shared row with the same values."""
        columns = [name for name in [*self.columns, *self.identity] if name not in self.state]
        made = {column: getattr(vendors, function)(connection) for column, function in self.made.items()}
        return vendors.adoption_trigger(
            connection, name, self.table, event, condition, self.shared, self.key, columns, made, self.state
        )

    def sets(self, *more: str) -> str:
        return ", ".join(f"{name} = NEW.{name}" for name in (*self.columns, *more))


@dataclass(frozen=True)
class SameAsShared:
    """A rule: rejects a row that names a shared row with other values."""

    copies: Copies
    message: str
    # Of an update: only if it changes the key.
    changed: bool = False

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        key = self.copies.key
        when = f"NEW.{key} IS NOT NULL"
        if self.changed:
            when = f"NOT ({unchanged(connection, [], [key])})"
        yield vendors.RowCheck(when, [self.copies.shared_is_same(connection)], self.message)


@dataclass(frozen=True)
class _OfCopy:
    """A trigger of the table with the copies."""

    name: str
    copies: Copies

    @property
    def table(self) -> str:
        return self.copies.table


@dataclass(frozen=True)
class ShareNew(_OfCopy):
    """A new row without a shared row gets one of its own."""

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        return self.copies.adopt(connection, self.name, "INSERT", f"NEW.{self.copies.key} IS NULL")


@dataclass(frozen=True)
class ShareChanged(_OfCopy):
    """A row that is changed by itself gets a shared row of its own, if it has none or shares one with others."""

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        by_itself = f"{self.copies.differs(connection)} AND {self.copies.is_shared()}"
        return self.copies.adopt(connection, self.name, "UPDATE", f"NEW.{self.copies.key} IS NULL OR ({by_itself})")


@dataclass(frozen=True)
class CopyUp(_OfCopy):
    """A changed row changes its shared row, if no other row shares it."""

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        condition = f"{self.copies.differs(connection)} AND NOT {self.copies.is_shared()}"
        sets, key = self.copies.sets("updated_at"), self.copies.key
        statement = f"UPDATE {self.copies.shared} SET {sets} WHERE id = NEW.{key}"  # noqa: S608
        return vendors.conditional_trigger(connection, self.name, self.table, "UPDATE", condition, statement)


@dataclass(frozen=True)
class CopyDown:
    """A changed shared row changes its rows."""

    name: str
    copies: Copies

    @property
    def table(self) -> str:
        return self.copies.shared

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        copies = self.copies
        where = f"{copies.key} = NEW.id AND {copies.ended} IS NULL"
        same = self.copies.same(connection, copies.columns, copies.table, "NEW")
        other = f"EXISTS (SELECT 1 FROM {copies.table} WHERE {where} AND NOT ({same}))"  # noqa: S608
        condition = f"NOT ({unchanged(connection, copies.columns)}) AND {other}"
        statement = f"UPDATE {copies.table} SET {copies.sets('updated_at')} WHERE {where}"  # noqa: S608
        return vendors.conditional_trigger(connection, self.name, self.table, "UPDATE", condition, statement)
