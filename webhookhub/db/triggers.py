"""Triggers as migration operations, for every engine.

A `Refusal` rejects a statement that breaks a rule; a `Reset` sets a column when another changes; a `Fill` completes a
new row; a `Default` sets a column of a new row by a query; a `Copy` fills an inbox in the transaction of the insert; an
`Insert` creates rows of another table; a `Mirror` copies a column to the rows of another table; a `Tally` counts.

A migration that changes a trigger replaces it whole (`ReplaceTriggers`), built on the rules of the earlier migration
(`earlier()`). One that changes tables does so with `WithTriggersAside`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations import SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation

from . import vendors
from .conditions import MAX_DELAY

# A delay added to an earlier time is still a date of the calendar.
TOO_LATE = "9001-01-01"
# Of an attempt: the times of all later attempts, too, are before TOO_LATE.
ATTEMPT_TOO_LATE = "8000-01-01"
MESSAGE_LIMIT = 128  # characters of MESSAGE_TEXT
# In the query of a rule with `locks`: the place of the lock at the end of a subquery.
LOCK = "/*lock*/"


@dataclass(frozen=True)
class Check:
    """The check constraint with this name as a rule, for servers on which any session may switch constraints off.

    `columns` are those that it reads; `condition` makes its SQL from them, named as of the new row.
    """

    name: str
    columns: Sequence[str]
    condition: Callable[..., str]

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        if (switched_off := vendors.checks_switched_off(connection)) is not None:
            condition = self.condition(connection, *(f"NEW.{column}" for column in self.columns))
            # A constraint accepts an unknown result, too.
            accepted = f"({condition}) IS NOT FALSE"
            yield vendors.RowCheck(switched_off, [accepted], f"The check {self.name} is violated: refused")


@dataclass(frozen=True)
class Required:
    """Rejects a row with NULL in one of `columns`, which are NOT NULL.

    A server stores '', 0 or a zero date instead, after the triggers, if the session is not strict or says IGNORE.
    """

    columns: Sequence[str]

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        if vendors.replaces_null(connection):
            missing = " OR ".join(f"NEW.{column} IS NULL" for column in self.columns)
            yield vendors.RowCheck(missing, [], "A required column is NULL: refused")


@dataclass(frozen=True)
class RealTimes:
    """Rejects a row with a time in one of `columns` that is no date of the calendar, such as 0000-00-00, or not before
    `before`, to which the column `seconds` is added.

    With `changed`, only if an update changes it, which is quicker. NULL is accepted.
    """

    columns: Sequence[str]
    changed: bool = False
    before: str = TOO_LATE
    seconds: str = ""

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        end = f"'{self.before}'"
        if self.seconds:
            end = vendors.seconds_after(connection, end, f"NEW.{self.seconds}")
        for column in self.columns:
            when = f"NEW.{column} IS NOT NULL"
            if self.changed:
                when = f"NOT ({unchanged(connection, [], [column])})"
            accepted = [f"{vendors.is_time_sql(connection, f'NEW.{column}')} AND NEW.{column} < {end}"]
            if self.changed:
                accepted.append(f"NEW.{column} IS NULL")
            yield vendors.RowCheck(when, accepted, f"{column} is no date of the calendar, or too late: refused")


@dataclass(frozen=True)
class OnCalendar:
    """Rejects a row with a time in one of `columns`, which are NOT NULL, that is no date of the calendar or too late.

    Like RealTimes, and quicker: one function and one comparison for each column.
    """

    columns: Sequence[str]

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        real = " AND ".join(vendors.is_day_before_sql(connection, f"NEW.{name}", TOO_LATE) for name in self.columns)
        yield vendors.RowCheck(
            vendors.ALWAYS, [real], f"{' or '.join(self.columns)} is no date of the calendar, or too late: refused"
        )


@dataclass(frozen=True)
class OnServers:
    """A rule for the servers, on which other programs have roles: the embedded database belongs to the hub alone."""

    rule: Rule

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        if vendors.is_server(connection):
            yield from self.rule.checks(connection)


@dataclass(frozen=True)
class NotBlank:
    """Rejects a row with a text in one of `columns` that holds nothing visible."""

    columns: Sequence[str]
    message: str

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        blank = " OR ".join(vendors.is_blank_sql(connection, f"NEW.{column}") for column in self.columns)
        yield vendors.RowCheck(blank, [], self.message)


@dataclass(frozen=True)
class Copied:
    """Rejects a new row whose `column` is not, byte for byte, `source` of the row of `table` with the id `key`."""

    column: str
    table: str
    source: str
    key: str
    message: str

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        same = vendors.same_bytes(connection, f"{self.table}.{self.source}", f"NEW.{self.column}")
        query = f"SELECT 1 FROM {self.table} WHERE {self.table}.id = NEW.{self.key} AND {same}"  # noqa: S608
        yield vendors.RowCheck(vendors.ALWAYS, [f"EXISTS ({query})"], self.message)


@dataclass(frozen=True)
class Fill:
    """Sets `column` of a new row to the text of its UUID column `uid`, if it is empty; then checks the row.

    One trigger for both: servers start each trigger separately for each row.
    """

    name: str
    table: str
    column: str
    uid: str
    rules: Sequence[Check | Required | OnServers] = ()

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        checks = checks_of(self.rules, connection)
        return vendors.fill_trigger(connection, self.name, self.table, self.column, self.uid, checks)

    def is_update(self, connection: BaseDatabaseWrapper, columns: Sequence[str]) -> str:
        """SQL that is true for the update that this trigger makes and changes none of the other `columns`."""
        others = unchanged(connection, [name for name in columns if name != self.column])
        value = vendors.uid_text(connection, f"OLD.{self.uid}")
        return f"OLD.{self.column} = '' AND NEW.{self.column} = {value} AND {others}"


@dataclass(frozen=True)
class Rule:
    """Rejects a row for which `when` is true, except where a further condition accepts it.

    All conditions are SQL on OLD and NEW that all engines understand. A row is accepted

    - if one of `unless` is true, of which the most frequent comes first;
    - if the query `unless_exists` finds a row. With `locks`, that row is committed and stays as it is until this
      transaction ends: even a session that reads uncommitted rows relies on nothing that is then rolled back. Servers
      do not lock the rows of subqueries: those that matter end with LOCK;
    - if an update changes none of `protects` and `protects_values`, as an idempotent insert of an existing row does.
      `protects_values` are numbers, times and enumerations, which are quicker to compare than texts;
    - if an update changes one of `unless_changed`;
    - if it is the update of the trigger `allows`, where that makes one;
    - if the first of `cases` that it is has no rule that rejects it.
    """

    name: str
    message: str
    when: str = vendors.ALWAYS
    unless: Sequence[str] = ()
    unless_exists: str = ""
    locks: bool = False
    protects: Sequence[str] = ()
    protects_values: Sequence[str] = ()
    unless_changed: Sequence[str] = ()
    allows: Fill | None = None
    cases: Sequence[Case] = ()

    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]:
        assert len(self.message) <= MESSAGE_LIMIT
        assert "'" not in self.message
        cases = [(case.when, checks_of(case.rules, connection)) for case in self.cases]
        when = self._locked(connection, self.when)
        yield vendors.RowCheck(when, list(self._exceptions(connection)), self.message, cases)

    def _exceptions(self, connection: BaseDatabaseWrapper) -> Iterator[str]:
        yield from self.unless
        if self.protects or self.protects_values:
            yield unchanged(connection, self.protects, self.protects_values)
        if self.unless_changed:
            yield f"NOT ({unchanged(connection, self.unless_changed)})"
        if self.allows and vendors.fills_after_insert(connection):
            yield self.allows.is_update(connection, [*self.protects, *self.protects_values])
        if self.unless_exists:
            tail = f" {LOCK}" if self.locks else ""
            yield self._locked(connection, f"EXISTS ({self.unless_exists}{tail})")

    def _locked(self, connection: BaseDatabaseWrapper, sql: str) -> str:
        return sql.replace(f" {LOCK}", f" {vendors.shared_lock_tail(connection)}".rstrip()) if self.locks else sql


@dataclass(frozen=True)
class Case:
    """The rules for rows for which `when` is true, within a rule that accepts only its cases."""

    when: str
    rules: Sequence[Rule] = ()


@dataclass(frozen=True)
class Refusal:
    """Rejects `event` (INSERT, UPDATE or DELETE) on `table` with the message of the first rule that a row breaks.

    One trigger for all rules of a table and event: servers start each trigger separately for each row.
    """

    name: str
    table: str
    event: str
    rules: Sequence[AnyRule]

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        checks = checks_of(self.rules, connection)
        return vendors.refusal_trigger(connection, self.name, self.table, self.event, checks)


@dataclass(frozen=True)
class Reset:
    """When an update changes the column `changed`, sets `column` to the SQL value `to`."""

    name: str
    table: str
    changed: str
    column: str
    to: str

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        condition = f"NOT ({unchanged(connection, [self.changed])})"
        return vendors.reset_trigger(connection, self.name, self.table, self.changed, condition, self.column, self.to)


@dataclass(frozen=True)
class Default:
    """Sets `column` of a new row to the value of `query`, if it is NULL."""

    name: str
    table: str
    column: str
    query: str

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        return vendors.default_trigger(connection, self.name, self.table, self.column, self.query)


@dataclass(frozen=True)
class Copy:
    """After an insert into `table`, inserts the new row's `columns` (target → source) into `into`.

    With `when`, an SQL condition on NEW that all engines understand, only for matching rows.
    """

    name: str
    table: str
    into: str
    columns: Sequence[tuple[str, str]]
    when: str = ""

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        targets = ", ".join(target for target, _ in self.columns)
        values = ", ".join(f"NEW.{source}" for _, source in self.columns)
        statement = f"INSERT INTO {self.into} ({targets}) VALUES ({values})"  # noqa: S608
        if self.when:
            return vendors.conditional_trigger(connection, self.name, self.table, "INSERT", self.when, statement)
        return f"CREATE TRIGGER {self.name} AFTER INSERT ON {self.table} FOR EACH ROW BEGIN {statement}; END"


@dataclass(frozen=True)
class Insert:
    """After an insert into `table`, inserts into `into` the `columns` (target → SQL value on NEW and `source`).

    `source` is the FROM clause and the WHERE clause of the rows to insert, in SQL that all engines understand.
    """

    name: str
    table: str
    into: str
    columns: Sequence[tuple[str, str]]
    source: str

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        targets = ", ".join(target for target, _ in self.columns)
        values = ", ".join(value for _, value in self.columns)
        statement = f"INSERT INTO {self.into} ({targets}) SELECT {values} {self.source}"
        return f"CREATE TRIGGER {self.name} AFTER INSERT ON {self.table} FOR EACH ROW BEGIN {statement}; END"


@dataclass(frozen=True)
class Mirror:
    """After `event` (INSERT or UPDATE) on `table` has set or changed `column`, which is NULL at first, copies it, and
    `other` with it, to the rows of `into` that have the same `key`. `column` may have another name there, `target`, and
    the key `target_key`."""

    name: str
    table: str
    event: str
    into: str
    key: str
    column: str
    other: str
    target: str = ""
    target_key: str = ""

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        is_insert = self.event == "INSERT"
        when = f"NEW.{self.column} IS NOT NULL" if is_insert else f"NOT ({unchanged(connection, [], [self.column])})"
        sets = f"{self.target or self.column} = NEW.{self.column}, {self.other} = NEW.{self.other}"
        where = f"{self.target_key or self.key} = NEW.{self.key}"
        statement = f"UPDATE {self.into} SET {sets} WHERE {where}"  # noqa: S608
        return vendors.conditional_trigger(connection, self.name, self.table, self.event, when, statement)


@dataclass(frozen=True)
class Tally:
    """After `event` (INSERT, UPDATE or DELETE) on `table`, increments `column` of the only row (id 1) of `into`."""

    name: str
    table: str
    event: str
    into: str
    column: str

    def create_sql(self, connection: BaseDatabaseWrapper) -> str:
        statement = vendors.count_up(connection, self.into, self.column)
        return f"CREATE TRIGGER {self.name} AFTER {self.event} ON {self.table} FOR EACH ROW BEGIN {statement}; END"


class AnyRule(Protocol):
    def checks(self, connection: BaseDatabaseWrapper) -> Iterator[vendors.RowCheck]: ...


def checks_of(rules: Sequence[AnyRule], connection: BaseDatabaseWrapper) -> list[vendors.RowCheck]:
    return [check for rule in rules for check in rule.checks(connection)]


def schedule_checks(noun: str) -> list[Check]:
    """The checks of a retry policy that another program may write; the names begin with chk_`noun`."""
    return [
        Check(f"chk_{noun}_base_delay", ["base_delay"], _is_delay),
        Check(f"chk_{noun}_retry_delays", ["retry_delays"], vendors.is_seconds_list_sql),
    ]


def _is_delay(connection: BaseDatabaseWrapper, base_delay: str) -> str:
    return f"{base_delay} >= 0 AND {base_delay} <= {MAX_DELAY // timedelta(microseconds=1)}"


def unchanged(connection: BaseDatabaseWrapper, columns: Sequence[str], values: Sequence[str] = ()) -> str:
    """SQL that is true when an update changes none of `columns` and `values`; NULL and letter case count.

    `values` are columns that hold no text.
    """
    assert columns or values
    same = [vendors.same_value(connection, f"OLD.{name}", f"NEW.{name}") for name in values]
    same += [vendors.same_bytes(connection, f"OLD.{name}", f"NEW.{name}") for name in columns]
    return " AND ".join(same)


# For tables into which roles insert by Django: MariaDB returns the new id only to those who may also write it.
IDS_LEFT = Rule("ids", "An id leaves room for the next ones: INSERT refused", when=f"NEW.id > {2**62}")


class Trigger(Protocol):
    """`table` is the one that it belongs to."""

    @property
    def name(self) -> str: ...
    @property
    def table(self) -> str: ...
    def create_sql(self, connection: BaseDatabaseWrapper) -> str: ...


class CreateTriggers(Operation):
    """Creates triggers forwards and drops them backwards."""

    reduces_to_sql = True
    reversible = True

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self.triggers = triggers

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        for trigger in self.triggers:
            # params=None: the text may hold a percent sign
            schema_editor.execute(trigger.create_sql(schema_editor.connection), params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        for trigger in reversed(self.triggers):
            # IF EXISTS: migrating back and forth restores a missing trigger.
            schema_editor.execute(f"DROP TRIGGER IF EXISTS {trigger.name}", params=None)

    def describe(self) -> str:
        return "Create triggers " + ", ".join(trigger.name for trigger in self.triggers)

    def deconstruct(self) -> Any:
        return self.__class__.__name__, [self.triggers], {}


class ReplaceTriggers(CreateTriggers):
    """Creates triggers in place of those of an earlier migration with the same names, and other new ones.

    `before` has the earlier ones, which are created again backwards. Processes that write meanwhile wait: they never
    find a table without one of its triggers.
    """

    def __init__(self, triggers: Sequence[Trigger], before: Sequence[Trigger]) -> None:
        super().__init__(triggers)
        self.before = before

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _replace(schema_editor, self.triggers, self.triggers)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _replace(schema_editor, self.triggers, self.before)

    def describe(self) -> str:
        return "Replace triggers " + ", ".join(trigger.name for trigger in self.triggers)

    def deconstruct(self) -> Any:
        return self.__class__.__name__, [self.triggers, self.before], {}


def _replace(schema_editor: Any, old: Sequence[Trigger], new: Sequence[Trigger]) -> None:
    """Table by table, in the order of `new`."""
    for table in dict.fromkeys(trigger.table for trigger in [*new, *old]):
        with vendors.locked_table(schema_editor, table):
            for trigger in reversed(old):
                if trigger.table == table:
                    # IF EXISTS: some are new.
                    schema_editor.execute(f"DROP TRIGGER IF EXISTS {trigger.name}", params=None)
            for trigger in new:
                if trigger.table == table:
                    schema_editor.execute(trigger.create_sql(schema_editor.connection), params=None)


class WithTriggersAside(SeparateDatabaseAndState):
    """Changes tables. Where an engine copies a table to change it, which drops its triggers and is refused while others
    refer to it, all triggers are dropped before and created again after it."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        super().__init__(operations, operations)

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        aside = self._drop(schema_editor)
        super().database_forwards(app_label, schema_editor, from_state, to_state)
        self._create(schema_editor, aside)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        aside = self._drop(schema_editor)
        super().database_backwards(app_label, schema_editor, from_state, to_state)
        self._create(schema_editor, aside)

    def deconstruct(self) -> Any:
        return self.__class__.__name__, [self.database_operations], {}

    @staticmethod
    def _drop(schema_editor: Any) -> dict[str, str]:
        connection = schema_editor.connection
        aside = vendors.triggers(connection) if vendors.copies_tables(connection) else {}
        for name in aside:
            schema_editor.execute(f"DROP TRIGGER {name}", params=None)
        return aside

    @staticmethod
    def _create(schema_editor: Any, aside: dict[str, str]) -> None:
        for sql in aside.values():
            schema_editor.execute(sql, params=None)


def earlier(app: str, name: str) -> Any:
    """The module of an earlier migration, whose rules a later one builds on."""
    return import_module(f"{app}.migrations.{name}")


def declared(without: Collection[Migration] = ()) -> list[Trigger]:
    """All triggers of the migrations except some, each as the last migration creates it."""
    last = {
        trigger.name: trigger
        for migration, triggers in by_migration()
        if migration not in without
        for trigger in triggers
    }
    return list(last.values())


def by_migration() -> list[tuple[Migration, list[Trigger]]]:
    """Each migration with triggers, and its triggers."""
    migrations = [migration for _, migration in sorted(MigrationLoader(None).disk_migrations.items())]
    return [(migration, made) for migration in migrations if (made := made_by(migration))]


def made_by(migration: Migration) -> list[Trigger]:
    return [
        trigger
        for operation in migration.operations
        if isinstance(operation, CreateTriggers)
        for trigger in operation.triggers
    ]
