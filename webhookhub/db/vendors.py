"""Everything that depends on the database engine, except its error codes (errors.py) and its connections (server/).

MySQL and MariaDB share a driver and a dialect; comments give the reason where they differ.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import DatabaseError

from .errors import Kind, code_of

URL_FORM = "mysql://user:password@host:port/name"
SUPPORTED = "MySQL 8.0.13 or MariaDB 10.6, or newer"

UNKNOWN_TABLE = 1146
MAX_BIGINT = 2**63 - 1
# TO_DAYS() of the servers, for 0001-01-01 and 1970-01-01.
FIRST_DAY, EPOCH_DAY = 366, 719528
# "INSERT command denied to user 'name'@'host' for table `database`.`table`", or "for column 'c' in table 't'".
_DENIED = re.compile(
    r"(?P<statement>[A-Z ]+) command denied to user '(?P<user>[^']*)'@.* table [`'](?:[^`']*`\.`)?(?P<table>[^`']*)[`']"
)
# A line of SHOW GRANTS about a whole database, or about all of them.
_GRANT = re.compile(r"GRANT (?P<privileges>.+) ON (?:\*|`(?P<database>.+)`)\.\* TO ")
# The longest account name that both servers accept.
ACCOUNT_LENGTH = 32

# A limit of the length of unique columns, which the supported servers do not have.
SILENCED_CHECKS = ["mysql.W003"]

# Separators, control characters, invisible characters and marks, and letters without a shape, in regular expressions.
_BLANK_CLASSES = ("p{Z}", "p{Cc}", "p{Cf}", "p{Mn}", "p{Me}")
_BLANK_LETTERS = (0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0)

ENUM_COLLATION = "CHARACTER SET ascii COLLATE ascii_bin"
TEXT_COLLATION = "utf8mb4_bin"

# How long a connection waits for a response: longer than a statement may wait for a lock, shorter than a request to an
# endpoint may take.
STATEMENT_SECONDS = 15

SQLITE_OPTIONS: dict[str, Any] = {
    # IMMEDIATE: a claim takes the write lock before it reads, so two claims never see the same row.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    # FULL: acknowledged writes survive a power cut, as on the servers. Recursive triggers: without them, REPLACE would
    # delete rows without firing the delete triggers.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
    "PRAGMA recursive_triggers=ON;",
}
MYSQL_OPTIONS: dict[str, Any] = {
    "isolation_level": "read committed",
    "charset": "utf8mb4",
    "connect_timeout": 5,
    "read_timeout": STATEMENT_SECONDS,
    "write_timeout": STATEMENT_SECONDS,
}
# No intersections: with the primary key and idx_job_settled, MySQL would read and sort every unsettled result at each
# poll instead of reading along the index up to the limit.
# The key in a connection's settings of how many seconds it may be idle until the server closes it.
IDLE_LIMIT = "IDLE_LIMIT"
# The server ends a session that is silent for `idle` seconds, and with it the locks of a process that has vanished.
SESSION = (
    "SET time_zone = '+00:00', "
    "sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
    "innodb_lock_wait_timeout = 10, "
    "optimizer_switch = 'index_merge_intersection=off', "
    "wait_timeout = {idle}, net_read_timeout = {idle}, net_write_timeout = {idle}"
)


class Denial(NamedTuple):
    statement: str
    user: str
    table: str


def embedded_url(folder: Path) -> str:
    return f"sqlite:///{folder}/hub.sqlite3"


def database_settings(engine: str, lock_limit: int) -> dict[str, Any]:
    """Django's ENGINE and the connection OPTIONS that the hub relies on.

    `lock_limit`: the seconds after which the server has released the locks of a process that has vanished.
    """
    if engine.endswith(".sqlite3"):
        return {"ENGINE": engine, "OPTIONS": dict(SQLITE_OPTIONS)}
    if engine.endswith(".mysql"):
        # The statement that was running when the process vanished ends first.
        idle = lock_limit - STATEMENT_SECONDS
        return {
            "ENGINE": "webhookhub.db.server",
            "OPTIONS": {**MYSQL_OPTIONS, "init_command": SESSION.format(idle=idle)},
            IDLE_LIMIT: idle,
        }
    raise ValueError(f"{engine!r} is not supported; use mysql://… or sqlite:///…")


def bound_waiting(connection: BaseDatabaseWrapper, seconds: int) -> None:
    """Makes `connection` treat a server that does not respond for `seconds` as lost."""
    if is_server(connection):
        connection.settings_dict["OPTIONS"] |= {"read_timeout": seconds, "write_timeout": seconds}
        connection.close()


def bound_locks(connection: BaseDatabaseWrapper, seconds: int) -> None:
    """Limits how long a statement of `connection` waits for a lock."""
    options = connection.settings_dict["OPTIONS"]
    if is_server(connection):
        options["init_command"] += f", innodb_lock_wait_timeout = {seconds}"
    else:
        options["timeout"] = seconds
    connection.close()


def bound_everything(connection: BaseDatabaseWrapper, seconds: int) -> None:
    """Limits connecting, waiting for a response and waiting for a lock to `seconds` each."""
    bound_waiting(connection, seconds)
    connection.settings_dict["OPTIONS"]["connect_timeout" if is_server(connection) else "timeout"] = seconds


def is_server(connection: BaseDatabaseWrapper) -> bool:
    """A database server with row locks, not the embedded database with one writer at a time."""
    return connection.vendor == "mysql"


def is_mariadb(connection: BaseDatabaseWrapper) -> bool:
    return connection.vendor == "mysql" and bool(connection.mysql_is_mariadb)  # type: ignore[attr-defined]


def denial(error: BaseException) -> Denial:
    """Who was denied what. Parts that the server does not name are empty."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    match = _DENIED.search(text)
    return Denial(*match.group("statement", "user", "table")) if match else Denial("", "", "")


def utc_now_sql(connection: BaseDatabaseWrapper) -> str:
    if is_server(connection):
        return "UTC_TIMESTAMP(6)"
    # Six digits, as Django writes times: they are compared as texts.
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


def utc_later_sql(connection: BaseDatabaseWrapper) -> str:
    """The current time plus a number of microseconds, a parameter."""
    if is_server(connection):
        return "UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND"
    return "strftime('%%Y-%%m-%%d %%H:%%M:%%f000', 'now', (%s / 1000000.0) || ' seconds')"


def new_uid_sql(connection: BaseDatabaseWrapper) -> str:
    if is_server(connection):
        return "REPLACE(UUID(), '-', '')"
    return "lower(hex(randomblob(16)))"


def json_column(connection: BaseDatabaseWrapper) -> str:
    if is_mariadb(connection):
        # MariaDB's JSON is this type plus json_valid(), which refuses valid documents deeper than 32 levels.
        return f"longtext CHARACTER SET utf8mb4 COLLATE {TEXT_COLLATION}"
    return "json" if is_server(connection) else "text"


def is_json_sql(connection: BaseDatabaseWrapper, column: str) -> str:
    if is_mariadb(connection):
        # json_valid() refuses valid documents of 32 levels or more; those have at least 32 opening brackets.
        brackets = f"LENGTH({column}) - LENGTH(REPLACE(REPLACE({column}, '[', ''), '{{', ''))"
        return f"JSON_VALID({column}) OR {brackets} >= 32"
    return f"JSON_VALID({column})" if is_server(connection) else f"typeof({column}) = 'text' AND json_valid({column})"


def is_uid_sql(connection: BaseDatabaseWrapper, column: str) -> str:
    if connection.features.has_native_uuid_field:
        return f"{column} IS NOT NULL"
    if is_server(connection):
        return f"{column} REGEXP '^[0-9a-f]{{32}}$'"
    return f"length({column}) = 32 AND {column} NOT GLOB '*[^0-9a-f]*'"


def is_time_sql(connection: BaseDatabaseWrapper, column: str) -> str:
    if is_server(connection):
        return f"{column} >= '1970-01-01' AND MONTH({column}) > 0 AND DAYOFMONTH({column}) > 0"
    # Equal to what SQLite makes of it: the 30th of February would become a day in March. No spaces after the commas:
    # Django's introspection would take what follows for a column.
    seconds, fraction = f"substr({column},1,19)", f"substr({column},20)"
    calendar = f"{seconds} >= '1970-01-01' AND {seconds} IS datetime({seconds},'+0 days')"
    is_fraction = f"{fraction} GLOB '.[0-9]*' AND {fraction} NOT GLOB '.*[^0-9]*' AND length({fraction}) <= 7"
    return f"{calendar} AND ({fraction} = '' OR {is_fraction})"


def is_day_before_sql(connection: BaseDatabaseWrapper, column: str, end: str) -> str:
    """A date of the calendar from 1970 on and before `end`; not true for NULL."""
    if is_server(connection):
        # TO_DAYS() is NULL for dates with a zero in them.
        last = (date.fromisoformat(end) - date(1, 1, 1)).days + FIRST_DAY - 1
        return f"TO_DAYS({column}) BETWEEN {EPOCH_DAY} AND {last}"
    return f"{is_time_sql(connection, column)} AND {column} < '{end}'"


def is_seconds_list_sql(connection: BaseDatabaseWrapper, column: str) -> str:
    """Whole numbers of up to six digits, separated by commas."""
    if is_server(connection):
        return f"{column} REGEXP '^[1-9][0-9]{{0,5}}(,[1-9][0-9]{{0,5}})*$'"
    wrong = ["*[^0-9,]*", "[^1-9]*", "*,[^1-9]*", "*,", "*" + "[0-9]" * 7 + "*"]
    return " AND ".join([f"{column} <> ''", *(f"{column} NOT GLOB '{pattern}'" for pattern in wrong)])


def is_blank_sql(connection: BaseDatabaseWrapper, column: str) -> str:
    """Nothing but spaces, control characters, invisible characters and letters that look like a space."""
    if is_server(connection):
        # Joined by backslashes: servers show a trigger without those that it was written with.
        parts = ["[^", *_BLANK_CLASSES, *(f"x{{{code:X}}}" for code in _BLANK_LETTERS)]
        return f"{column} NOT REGEXP CONCAT_WS(CHAR(92 USING utf8mb4), {quoted(parts)[:-1]}]')"
    # Without the combining marks: SQLite has no classes of characters.
    codes = [*range(1, 33), *range(0x7F, 0xA1), 0xAD, 0x1680, *range(0x2000, 0x2010), *range(0x2028, 0x2030), 0x205F]
    codes += [*range(0x2060, 0x2070), 0x3000, 0xFEFF, *_BLANK_LETTERS]
    return f"trim({column}, char({', '.join(map(str, codes))})) = ''"


def has_no_controls_sql(connection: BaseDatabaseWrapper, column: str) -> str:
    if is_server(connection):
        # With UCP, MariaDB's classes are Unicode's, as MySQL's are.
        return f"{column} NOT REGEXP '{'(*UCP)' if is_mariadb(connection) else ''}[[:cntrl:]]'"
    # No spaces after the commas, as in is_time_sql().
    controls = "'*['||char(1)||'-'||char(31)||char(127)||'-'||char(159)||']*'"
    return f"{column} NOT GLOB {controls} AND instr({column},char(0)) = 0"


def enum_column(connection: BaseDatabaseWrapper, words: Sequence[str], max_length: int) -> str:
    if is_server(connection):
        return f"enum({quoted(words)}) {ENUM_COLLATION}"
    return f"varchar({max_length})"


def enum_check(connection: BaseDatabaseWrapper, column: str, words: Sequence[str]) -> str | None:
    return None if is_server(connection) else f'"{column}" IN ({quoted(words)})'


def quoted(words: Sequence[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def add_up_tail(connection: BaseDatabaseWrapper, table: str, key: Sequence[str], added: Sequence[str]) -> str:
    """The end of an INSERT that adds the new numbers to a row whose key exists already."""
    if not is_server(connection):
        head, value = f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET", "excluded.{}"
    elif not is_mariadb(connection) and connection.mysql_version >= (8, 0, 19):  # type: ignore[attr-defined]
        # Newer MySQL warns about VALUES() for every column; MariaDB knows nothing else.
        head, value = "AS given ON DUPLICATE KEY UPDATE", "given.{}"
    else:
        head, value = "ON DUPLICATE KEY UPDATE", "VALUES({})"
    sums = [f"{column} = {_bounded_sum(connection, f'{table}.{column}', value.format(column))}" for column in added]
    return f"{head} {', '.join(sums)}"


def _bounded_sum(connection: BaseDatabaseWrapper, one: str, other: str) -> str:
    """At most the largest number of the column: a counter that another program has set so high stops no loop."""
    if is_server(connection):
        return f"LEAST({one} + CAST({other} AS DECIMAL(20)), {MAX_BIGINT})"
    return f"min({one} + {other}, {MAX_BIGINT})"


def rows_as_table(connection: BaseDatabaseWrapper, columns: Sequence[str], count: int) -> str:
    """A derived table `given` of `count` parameter rows, to join a batch in one statement."""
    if is_server(connection):
        first = ", ".join(f"%s AS {column}" for column in columns)
        rest = ", ".join(["%s"] * len(columns))
        return "(SELECT " + " UNION ALL SELECT ".join([first, *([rest] * (count - 1))]) + ") given"
    # VALUES, because SQLite allows only 500 terms of UNION ALL; it names their columns column1, column2, …
    row = "(" + ", ".join(["%s"] * len(columns)) + ")"
    names = ", ".join(f"column{n} AS {column}" for n, column in enumerate(columns, 1))
    return f"(SELECT {names} FROM (VALUES {', '.join([row] * count)})) given"  # noqa: S608


def updated_by_primary_key(connection: BaseDatabaseWrapper, table: str) -> str:
    """A table whose rows an UPDATE finds by their primary keys: a scan of a small table would lock other rows."""
    return f"{table} FORCE INDEX (PRIMARY)" if is_server(connection) else table


def delete_given(connection: BaseDatabaseWrapper, table: str, key: str, count: int) -> str:
    """DELETE `count` rows of `table` by their primary keys, without reading other rows."""
    if is_server(connection):
        # Not IN (…): the optimizer would scan a small table and wait for locks on other rows.
        given = rows_as_table(connection, [key], count)
        on = f"{table}.{key} = given.{key}"
        return f"DELETE {table} FROM {given} STRAIGHT_JOIN {table} FORCE INDEX (PRIMARY) ON {on}"
    return f"DELETE FROM {table} WHERE {key} IN ({', '.join(['%s'] * count)})"  # noqa: S608


def shared_lock_tail(connection: BaseDatabaseWrapper) -> str:
    """The end of a SELECT that locks its rows against changes, for which the privilege to read them is enough."""
    # Not FOR SHARE, which MariaDB does not know. SQLite has one writer at a time.
    return "LOCK IN SHARE MODE" if is_server(connection) else ""


def by_primary_key(connection: BaseDatabaseWrapper, table: str, alias: str) -> str:
    """A table read in ranges of its primary key, whatever the optimizer prefers."""
    return f"{table} {alias} FORCE INDEX (PRIMARY)" if is_server(connection) else f"{table} AS {alias} NOT INDEXED"


def by_index(connection: BaseDatabaseWrapper, table: str, index: str) -> str:
    """A table read along this index, even if the optimizer prefers another index and a sort."""
    return f"{table} FORCE INDEX ({index})" if is_server(connection) else f"{table} INDEXED BY {index}"


def ordered_join(connection: BaseDatabaseWrapper) -> str:
    """An inner join that reads its tables in the written order."""
    return "STRAIGHT_JOIN" if is_server(connection) else "CROSS JOIN"


def join_order_hint(connection: BaseDatabaseWrapper) -> str:
    """After SELECT: read the tables in the written order, and no table of a subquery before them."""
    return "STRAIGHT_JOIN" if is_server(connection) else ""


def lookup_hint(connection: BaseDatabaseWrapper, table: str, column: str) -> str:
    """A hint after a joined table: use an index that begins with `column`."""
    if not is_server(connection):
        return ""  # SQLite prefers an index anyway
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT index_name FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND table_name = %s AND column_name = %s AND seq_in_index = 1",
            [table, column],
        )
        indexes = [f"`{name}`" for (name,) in cursor.fetchall()]
    return f"FORCE INDEX ({', '.join(indexes)})" if indexes else ""


def seconds_before(connection: BaseDatabaseWrapper, column: str, seconds: int) -> str:
    if is_server(connection):
        return f"{column} - INTERVAL {seconds} SECOND"
    return f"datetime({column}, '-{seconds} seconds')"


def seconds_after(connection: BaseDatabaseWrapper, time: str, seconds: str) -> str:
    if is_server(connection):
        return f"TIMESTAMP({time}) + INTERVAL {seconds} SECOND"
    return f"datetime({time}, {seconds} || ' seconds')"


def generated_columns(connection: BaseDatabaseWrapper, table: str) -> set[str]:
    with connection.cursor() as cursor:
        if is_server(connection):
            cursor.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "
                "AND table_name = %s AND generation_expression <> ''",
                [table],
            )
        else:
            cursor.execute(f"SELECT name FROM pragma_table_xinfo('{table}') WHERE hidden IN (2, 3)")  # noqa: S608
        return {name for (name,) in cursor.fetchall()}


def has_check(connection: BaseDatabaseWrapper, table: str, name: str) -> bool:
    """Reads the table definition: MySQL hides checks in information_schema from users who may only read."""
    if not is_server(connection):
        return False
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW CREATE TABLE {table}")
        return f"CONSTRAINT `{name}` CHECK " in cursor.fetchone()[1]


def triggers(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """Name → CREATE statement of every trigger that this user can see.

    The engines store a trigger's body exactly as it was written.
    """
    with connection.cursor() as cursor:
        if not is_server(connection):
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            return dict(cursor.fetchall())
        cursor.execute(
            "SELECT trigger_name, action_timing, event_manipulation, event_object_table, action_statement "
            "FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
        )
        return {
            name: f"CREATE TRIGGER {name} {timing} {event} ON {table} FOR EACH ROW {body}"
            for name, timing, event, table, body in cursor.fetchall()
        }


@contextmanager
def locked_table(schema_editor: Any, table: str) -> Iterator[None]:
    """While a migration changes the table's triggers, no other session writes to it."""
    if not is_server(schema_editor.connection):
        yield  # the migration is a transaction, and there is one writer
        return
    with schema_editor.locked(table):
        yield


def copies_tables(connection: BaseDatabaseWrapper) -> bool:
    """Whether Django changes a table by copying it, without its triggers."""
    return not is_server(connection)


def same_value(connection: BaseDatabaseWrapper, one: str, other: str) -> str:
    """For numbers, times and enumerations; NULL equals NULL."""
    return f"{one} <=> {other}" if is_server(connection) else f"{one} IS {other}"


def same_bytes(connection: BaseDatabaseWrapper, one: str, other: str) -> str:
    """For all columns: collations treat some different texts as equal, and JSON some different numbers."""
    if is_server(connection):
        return f"CAST({one} AS BINARY) <=> CAST({other} AS BINARY)"
    return f"{one} IS {other}"


# A condition of each row.
ALWAYS = "1 = 1"


class RowCheck(NamedTuple):
    """Rejects a row for which `when` and none of `exceptions` is true.

    The first of `cases` whose condition is true decides instead, with checks of its own.
    """

    when: str
    exceptions: Sequence[str]
    message: str
    cases: Sequence[tuple[str, Sequence[RowCheck]]] = ()


def refusal_trigger(
    connection: BaseDatabaseWrapper, name: str, table: str, event: str, checks: Sequence[RowCheck]
) -> str:
    """Rejects a row with the message of the first check that rejects it."""
    head = f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW BEGIN"
    if is_server(connection):
        return f"{head} {_server_checks(checks)} END"
    whens = [f"WHEN {condition} THEN RAISE(ABORT, '{message}')" for condition, message in _refusals(checks)]
    return f"{head} SELECT CASE {' '.join(whens)} END; END"


def _refusals(checks: Sequence[RowCheck]) -> Iterator[tuple[str, str]]:
    """(condition, message), each independent of the others, which SQLite needs: it has no IF."""
    for check in checks:
        is_case = [f"({condition})" for condition, _ in check.cases]
        refused = [f"({check.when})", *(f"NOT ({exception})" for exception in check.exceptions)]
        yield " AND ".join([*refused, *(f"NOT {condition}" for condition in is_case)]), check.message
        for condition, (_, case_checks) in zip(is_case, check.cases, strict=True):
            for inner, message in _refusals(case_checks):
                yield " AND ".join([*refused, condition, inner]), message


def _server_checks(checks: Sequence[RowCheck]) -> str:
    """Many short conditions: a server prepares each condition again for each row, even the parts that it skips."""
    parts = []
    for when, group in groupby(checks, lambda check: check.when):
        refusals = " ".join(map(_server_refusal, group))
        parts.append(refusals if when == ALWAYS else f"IF {when} THEN {refusals} END IF;")
    return " ".join(parts)


def _server_refusal(check: RowCheck) -> str:
    refusal = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{check.message}';"
    accepted = [f"{exception} THEN BEGIN END;" for exception in check.exceptions]
    for condition, checks in check.cases:
        accepted.append(f"{condition} THEN {_server_checks(checks) or 'BEGIN END;'}")
    return f"IF {' ELSEIF '.join(accepted)} ELSE {refusal} END IF;" if accepted else refusal


def checks_switched_off(connection: BaseDatabaseWrapper) -> str | None:
    """SQL that is true in a session that has switched check constraints off; None if that needs a privilege."""
    return "@@SESSION.check_constraint_checks = 0" if is_mariadb(connection) else None


def replaces_null(connection: BaseDatabaseWrapper) -> bool:
    """Whether a session may let the server store another value for NULL in a NOT NULL column."""
    return is_server(connection)


def conditional_trigger(
    connection: BaseDatabaseWrapper, name: str, table: str, event: str, condition: str, statement: str
) -> str:
    return _conditional(connection, f"CREATE TRIGGER {name} AFTER {event} ON {table}", condition, statement)


def adoption_trigger(
    connection: BaseDatabaseWrapper,
    name: str,
    table: str,
    event: str,
    condition: str,
    into: str,
    key: str,
    columns: Sequence[str],
    made: Mapping[str, str],
    cleared: Sequence[str],
) -> str:
    """Where `condition` is true, inserts a row into `into`, sets the column `key` to its id and `cleared` to NULL.

    The new row has the values of `columns` and, for each of `made`, that of an SQL expression.
    """
    targets = ", ".join([*columns, *made])
    head = f"CREATE TRIGGER {name} {{}} {event} ON {table} FOR EACH ROW"
    if is_server(connection):
        values = ", ".join([*(f"NEW.{column}" for column in columns), *made.values()])
        insert = f"INSERT INTO {into} ({targets}) VALUES ({values})"  # noqa: S608
        sets = ", ".join([f"NEW.{key} = LAST_INSERT_ID()", *(f"NEW.{column} = NULL" for column in cleared)])
        statements = f"{insert}; SET {sets};"
        return f"{head.format('BEFORE')} BEGIN IF {condition} THEN {statements} END IF; END"
    # SQLite cannot change NEW: the row is changed after the fact, within the same statement. The row as it is then,
    # which another trigger may have changed, and only once.
    here = f"WHERE id = NEW.id AND {key} IS NEW.{key}"
    values = ", ".join([*columns, *made.values()])
    insert = f"INSERT INTO {into} ({targets}) SELECT {values} FROM {table} {here}"  # noqa: S608
    sets = ", ".join([f"{key} = last_insert_rowid()", *(f"{column} = NULL" for column in cleared)])
    update = f"UPDATE {table} SET {sets} {here}"  # noqa: S608
    return f"{head.format('AFTER')} WHEN {condition} BEGIN {insert}; {update}; END"


def default_trigger(connection: BaseDatabaseWrapper, name: str, table: str, column: str, query: str) -> str:
    """Sets `column` of a new row, if it is NULL, to the value of `query`."""
    if is_server(connection):
        head = f"CREATE TRIGGER {name} BEFORE INSERT ON {table} FOR EACH ROW BEGIN"
        return f"{head} IF NEW.{column} IS NULL THEN SET NEW.{column} = ({query}); END IF; END"
    head = f"CREATE TRIGGER {name} AFTER INSERT ON {table} FOR EACH ROW WHEN NEW.{column} IS NULL BEGIN"
    return f"{head} UPDATE {table} SET {column} = ({query}) WHERE id = NEW.id; END"  # noqa: S608


def reset_trigger(
    connection: BaseDatabaseWrapper, name: str, table: str, changed: str, condition: str, column: str, value: str
) -> str:
    head, statement = f"CREATE TRIGGER {name} BEFORE UPDATE ON {table}", f"SET NEW.{column} = {value}"
    if not is_server(connection):
        # SQLite cannot change NEW: the row is corrected after the fact, within the same statement.
        head = f"CREATE TRIGGER {name} AFTER UPDATE OF {changed} ON {table}"
        statement = f"UPDATE {table} SET {column} = {value} WHERE id = NEW.id"  # noqa: S608
    return _conditional(connection, head, condition, statement)


def _conditional(connection: BaseDatabaseWrapper, head: str, condition: str, statement: str) -> str:
    if is_server(connection):
        return f"{head} FOR EACH ROW BEGIN IF {condition} THEN {statement}; END IF; END"
    return f"{head} FOR EACH ROW WHEN {condition} BEGIN {statement}; END"


def uid_text(connection: BaseDatabaseWrapper, uid: str) -> str:
    """A UUID column as text with dashes, whether the engine stores it as text or as a type of its own."""
    if is_server(connection):
        text = f"LOWER(REPLACE({uid}, '-', ''))"
        for place in (9, 14, 19, 24):
            text = f"INSERT({text}, {place}, 0, '-')"
        return text
    parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    return " || '-' || ".join(f"substr({uid}, {start}, {length})" for start, length in parts)


def fill_trigger(
    connection: BaseDatabaseWrapper, name: str, table: str, column: str, uid: str, checks: Sequence[RowCheck]
) -> str:
    if is_server(connection):
        head = f"CREATE TRIGGER {name} BEFORE INSERT ON {table} FOR EACH ROW"
        value = uid_text(connection, f"NEW.{uid}")
        fill = f"IF NEW.{column} = '' OR NEW.{column} IS NULL THEN SET NEW.{column} = {value}; END IF;"
        return f"{head} BEGIN {fill} {_server_checks(checks)} END"
    assert not checks, "an update of the new row would come before them"
    # SQLite cannot change NEW: the row is completed after the insert, within the same statement.
    head = f"CREATE TRIGGER {name} AFTER INSERT ON {table} FOR EACH ROW WHEN NEW.{column} = ''"
    value = uid_text(connection, f"NEW.{uid}")
    return f"{head} BEGIN UPDATE {table} SET {column} = {value} WHERE id = NEW.id; END"  # noqa: S608


def fills_after_insert(connection: BaseDatabaseWrapper) -> bool:
    """Whether a fill_trigger() updates the new row."""
    return not is_server(connection)


def count_up(connection: BaseDatabaseWrapper, table: str, column: str) -> str:
    """Increments `column` of the row with id 1, and inserts the row if it is missing."""
    insert = f"INSERT INTO {table} (id, {column}) VALUES (1, 1)"  # noqa: S608
    if is_server(connection):
        return f"{insert} ON DUPLICATE KEY UPDATE {column} = {column} + 1"
    return f"{insert} ON CONFLICT (id) DO UPDATE SET {column} = {column} + 1"


def default_role_statement(connection: BaseDatabaseWrapper, role: str, user: str) -> str:
    return f"SET DEFAULT ROLE {role} {'FOR' if is_mariadb(connection) else 'TO'} {user}"


def role_host(connection: BaseDatabaseWrapper) -> str:
    """The host that the server stores for a role."""
    return "" if is_mariadb(connection) else "%"


def roles_of(connection: BaseDatabaseWrapper, name: str, host: str) -> list[str]:
    """The roles granted to a user or a role, as they are written in a statement."""
    if is_mariadb(connection):
        sql = "SELECT CONCAT('`', role, '`') FROM mysql.roles_mapping WHERE user = %s AND host = %s"
    else:
        sql = "SELECT CONCAT('`', from_user, '`@`', from_host, '`') FROM mysql.role_edges "
        sql += "WHERE to_user = %s AND to_host = %s"
    with connection.cursor() as cursor:
        cursor.execute(sql, [name, host])
        return sorted(row[0] for row in cursor.fetchall())


def users_named(connection: BaseDatabaseWrapper, names: Sequence[str]) -> list[tuple[str, str]]:
    """(name, host) of the users, not roles, with these names."""
    # MySQL does not mark roles: they are locked accounts without a password.
    is_user = "is_role = 'N'" if is_mariadb(connection) else "(account_locked = 'N' OR authentication_string <> '')"
    placeholders = ", ".join(["%s"] * len(names))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT user, host FROM mysql.user WHERE user IN ({placeholders}) AND {is_user} ORDER BY user, host",  # noqa: S608
            list(names),
        )
        return list(cursor.fetchall())


def public_grants(connection: BaseDatabaseWrapper) -> list[str]:
    """The grants to PUBLIC, which every user has, where the server knows it."""
    if not is_mariadb(connection) or connection.mysql_version < (10, 11):  # type: ignore[attr-defined]
        return []
    with connection.cursor() as cursor:
        cursor.execute("SHOW GRANTS FOR PUBLIC")
        return [line for (line,) in cursor.fetchall() if not line.startswith("GRANT USAGE ")]


def held_privileges(connection: BaseDatabaseWrapper) -> set[str]:
    """The privileges that this connection holds on its whole database, itself or through an active role."""
    held: set[str] = set()
    with connection.cursor() as cursor:
        cursor.execute("SHOW GRANTS")
        grants = [_GRANT.match(line) for (line,) in cursor.fetchall()]
        for grant in filter(None, grants):
            if grant["database"]:
                # The name of a database in a grant is a pattern.
                cursor.execute("SELECT %s LIKE %s", [connection.settings_dict["NAME"], grant["database"]])
                if not cursor.fetchone()[0]:
                    continue
            held |= set(grant["privileges"].split(", "))
            if "ALL PRIVILEGES" in held:
                held |= {"TRIGGER"} if grant["database"] else {"TRIGGER", "SUPER"}
    return held


def require_readable(connection: BaseDatabaseWrapper, table: str) -> None:
    """Raises the server's error if this user may not read `table`, which servers otherwise hide."""
    if not is_server(connection):
        return
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")  # noqa: S608
        except DatabaseError as error:
            if code_of(error) != UNKNOWN_TABLE:
                raise


def require_insertable(connection: BaseDatabaseWrapper, table: str, column: str) -> None:
    """Raises the server's error if this user may not insert into `table`: EXPLAIN needs the same privilege."""
    if is_server(connection):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN INSERT INTO {table} ({column}) VALUES ('')")  # noqa: S608


def refuses_writes(connection: BaseDatabaseWrapper) -> Kind | None:
    """READ_ONLY or OFFLINE if the server refuses the writes of ordinary users, READ_ONLY or FULL if the embedded
    database's file system does; None otherwise."""
    if not is_server(connection):
        return _file_refuses_writes(Path(connection.settings_dict["NAME"]))
    names = (
        ["read_only", "innodb_read_only"]
        if is_mariadb(connection)
        else ["read_only", "innodb_read_only", "offline_mode"]
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"@@global.{name}" for name in names))
        values = dict(zip(names, cursor.fetchone(), strict=True))
    on = {name for name, value in values.items() if str(value) not in ("0", "OFF")}
    return Kind.OFFLINE if "offline_mode" in on else Kind.READ_ONLY if on else None


def _file_refuses_writes(file: Path) -> Kind | None:
    # The folder, too: the database creates files beside its own.
    if not os.access(file, os.W_OK) or not os.access(file.parent, os.W_OK):
        return Kind.READ_ONLY
    return Kind.FULL if os.statvfs(file).f_bavail == 0 else None


def distrusts_trigger_creators(connection: BaseDatabaseWrapper) -> bool:
    """Whether the server requires the SUPER privilege to create a trigger."""
    if not is_server(connection):
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@global.log_bin AND NOT @@global.log_bin_trust_function_creators")
        return bool(cursor.fetchone()[0])


def id_steps(connection: BaseDatabaseWrapper) -> tuple[int, int]:
    """How far apart automatic ids are, and their offset."""
    if not is_server(connection):
        return 1, 1
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@session.auto_increment_increment, @@session.auto_increment_offset")
        increment, offset = cursor.fetchone()
    return int(increment), int(offset)


def connection_problems(connection: BaseDatabaseWrapper, tables: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(check id, message, hint) for each setting of the server or the session that the hub cannot work with."""
    if not is_server(connection):
        return
    minimum = (10, 6) if is_mariadb(connection) else (8, 0, 13)
    version = connection.mysql_version  # type: ignore[attr-defined]
    if version < minimum:
        yield "webhookhub.E010", f"the database server is version {'.'.join(map(str, version))}", f"use {SUPPORTED}"
    isolation_name = "tx_isolation" if is_mariadb(connection) else "transaction_isolation"
    placeholders = ", ".join(["%s"] * len(tables))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT @@session.{isolation_name}, @@session.time_zone, @@session.sql_mode")
        isolation, time_zone, sql_mode = cursor.fetchone()
        cursor.execute(
            f"SELECT table_name, engine FROM information_schema.tables "  # noqa: S608
            f"WHERE table_schema = DATABASE() AND table_name IN ({placeholders}) AND engine <> 'InnoDB'",
            list(tables),
        )
        not_innodb = cursor.fetchall()
    if isolation != "READ-COMMITTED":
        yield "webhookhub.E011", f"transactions are {isolation}", "they must be READ COMMITTED"
    if time_zone not in ("+00:00", "UTC"):
        yield "webhookhub.E012", f"the session's time zone is {time_zone}", "it must be +00:00"
    if "STRICT_TRANS_TABLES" not in sql_mode and "STRICT_ALL_TABLES" not in sql_mode:
        yield "webhookhub.E013", "the session's sql_mode is not strict", "it must hold STRICT_TRANS_TABLES"
    for table, engine in not_innodb:
        hint = "it must be InnoDB: ALTER TABLE … ENGINE=InnoDB"
        yield "webhookhub.E016", f"table {table} uses the engine {engine}", hint


def server_name(connection: BaseDatabaseWrapper) -> str:
    """The product and version of the database."""
    if not is_server(connection):
        return f"SQLite {sqlite3.sqlite_version}"
    product = "MariaDB" if is_mariadb(connection) else "MySQL"
    return f"{product} {'.'.join(map(str, connection.mysql_version))}"  # type: ignore[attr-defined]


def estimated_rows(connection: BaseDatabaseWrapper, tables: Sequence[str]) -> dict[str, int]:
    """How many rows the existing ones of these tables have, without counting: from statistics, or the highest id."""
    placeholders = ", ".join(["%s"] * len(tables))
    with connection.cursor() as cursor:
        if is_server(connection):
            cursor.execute(
                "SELECT table_name, table_rows FROM information_schema.tables "  # noqa: S608
                f"WHERE table_schema = DATABASE() AND table_name IN ({placeholders})",
                list(tables),
            )
            return {table: int(rows or 0) for table, rows in cursor.fetchall()}
        existing = set(connection.introspection.table_names(cursor)) & set(tables)
        found = {}
        for table in existing:
            cursor.execute(f"SELECT max(rowid) FROM {table}")  # noqa: S608
            found[table] = int(cursor.fetchone()[0] or 0)
        return found


def how_it_changes(connection: BaseDatabaseWrapper, sql: str) -> str:
    """How the database executes a statement of a migration, in words."""
    if not is_server(connection):
        return "part of one transaction; writers wait for its end"
    words = (
        ("ALGORITHM=INSTANT", "instant, or refused by the server"),
        ("ALGORITHM=INPLACE", "in place while processes read and write, or refused by the server"),
        ("CREATE TABLE", "instant: a new table"),
        ("TRIGGER", "instant"),
        ("LOCK TABLES", "instant; writers wait for milliseconds"),
        ("DROP TABLE", "instant"),
        ("CREATE INDEX", "in place: a small table"),
        ("ALTER TABLE", "a small table, which may be copied while writers wait"),
    )
    return next((text for word, text in words if word in sql), "changes rows")
