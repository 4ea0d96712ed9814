"""Django's backend for MySQL and MariaDB, for servers that fail over: connections to a server that is lost, read-only
or offline are closed at once, and connections that the server has closed while idle are replaced without an error."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from types import TracebackType
from typing import Any

import MySQLdb
from django.db.backends.mysql import base, operations
from django.db.utils import DatabaseErrorWrapper, Error, OperationalError
from django.utils.functional import cached_property
from MySQLdb.constants import CR, FIELD_TYPE
from MySQLdb.times import DateTime_or_None

from webhookhub.db.errors import SERVER_CODES, Kind, code_of, kind_of, last_seen
from webhookhub.db.vendors import IDLE_LIMIT

from .schema import SchemaEditor

# A shorter pause between two statements is part of some work: there, a closed connection is an error to report.
IDLE_SECONDS = 1.0
# How long the network may lose every packet before the connection counts as lost.
UNACKNOWLEDGED_SECONDS = 10
# How soon a vanished server is noticed while a long statement runs.
KEEPALIVE_SECONDS = 15
# A statement was interrupted: by KILL QUERY, or because the server ends the session, which it then closes at once.
INTERRUPTED = 1317
CLOSING_SECONDS = 1.0
CLOSED = select.POLLHUP | select.POLLERR | select.POLLNVAL | getattr(select, "POLLRDHUP", 0)
SOCKET_OPTIONS = {
    "TCP_KEEPIDLE": KEEPALIVE_SECONDS,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": UNACKNOWLEDGED_SECONDS * 1000,
}


class _ErrorWrapper(DatabaseErrorWrapper):
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            return
        try:
            super().__exit__(kind, error, trace)
        except Error as wrapped:
            wrapper: DatabaseWrapper = self.wrapper  # type: ignore[attr-defined]
            # A server that shuts down, or that ends the session, may interrupt the statement before it says so.
            if code_of(wrapped) == INTERRUPTED and wrapper.is_being_closed():
                wrapper.on_error(Kind.LOST)
                raise OperationalError(CR.SERVER_LOST, f"the server has closed the session: {wrapped}") from wrapped
            wrapper.on_error(kind_of(wrapped))
            raise


class _CursorWrapper(base.CursorWrapper):
    def close(self) -> None:
        """Django closes the cursor of a failed statement, whose connection may be closed by then."""
        try:
            self.cursor.close()
        except MySQLdb.Error as error:
            if SERVER_CODES.get(code_of(error) or 0) is not Kind.LOST:
                raise


class _Operations(operations.DatabaseOperations):
    def convert_datetimefield_value(self, value: datetime | None, expression: Any, connection: Any) -> datetime | None:
        """The hub's times are in UTC; the general conversion takes five times as long."""
        return None if value is None else value.replace(tzinfo=UTC)


class DatabaseWrapper(base.DatabaseWrapper):
    ops_class = _Operations
    SchemaEditorClass = SchemaEditor
    _used_at = 0.0

    @cached_property
    def wrap_database_errors(self) -> DatabaseErrorWrapper:
        return _ErrorWrapper(self)

    def get_connection_params(self) -> dict[str, Any]:
        parameters: dict[str, Any] = super().get_connection_params()
        parameters["conv"] = {**parameters["conv"], FIELD_TYPE.DATETIME: _datetime}
        return parameters

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        _limit_waiting(connection.fileno())
        self._used_at = time.monotonic()
        return connection

    def create_cursor(self, name: str | None = None) -> _CursorWrapper:
        return _CursorWrapper(self.connection.cursor())

    def execute(self, sql: str, parameters: Sequence[Any]) -> tuple[Sequence[tuple[Any, ...]], int, int]:
        """Executes one statement as a cursor does: half of its overhead is saved. See webhookhub.db.execute."""
        self.ensure_connection()
        if self.needs_rollback:
            self.validate_no_broken_transaction()
        with self.wrap_database_errors:
            connection = self.connection
            literals = [b"%d" % each if type(each) is int else connection.literal(each) for each in parameters]
            try:
                connection.query(sql.encode() % tuple(literals))
                result = connection.store_result()
            except MySQLdb.OperationalError as error:
                if error.args[0] in base.CursorWrapper.codes_for_integrityerror:
                    raise MySQLdb.IntegrityError(*error.args) from None
                raise
            rows = () if result is None else result.fetch_row(0, 0)
            return rows, connection.affected_rows(), connection.insert_id()

    def _start_transaction_under_autocommit(self) -> None:
        """Begins a transaction with one statement.

        Django calls it where a backend has it, instead of turning autocommit off before each transaction and on after.
        """
        with self.wrap_database_errors:
            self.connection.query("START TRANSACTION")

    def ensure_connection(self) -> None:
        now = time.monotonic()
        if now - self._used_at > IDLE_SECONDS:
            self._close_if_closed_by_server()
        self._used_at = now
        super().ensure_connection()

    def close_if_unusable_or_obsolete(self) -> None:
        """Called between two requests: replaces Django's health check, which costs a statement per request."""
        self._close_if_closed_by_server()
        super().close_if_unusable_or_obsolete()

    def on_error(self, kind: Kind) -> None:
        last_seen[kind] = time.monotonic()
        if kind.closes:
            self._discard()

    def is_being_closed(self) -> bool:
        """Whether the server closes the connection now."""
        return self.connection is not None and _is_closed(self.connection.fileno(), CLOSING_SECONDS)

    def _close_if_closed_by_server(self) -> None:
        if self.connection is None or not self.autocommit:
            return
        idle = time.monotonic() - self._used_at
        # The server's packet that closes a connection may be on its way, or lost with a network that was cut.
        if idle > self.settings_dict.get(IDLE_LIMIT, inf) - IDLE_SECONDS or _is_closed(self.connection.fileno()):
            self._discard()

    def _discard(self) -> None:
        """Closes the connection as close() does, and also within a transaction that is being committed."""
        if self.connection is None or self.closed_in_transaction:
            return
        with suppress(self.Database.Error):  # it is closed already
            self.connection.close()
        self.run_on_commit = []
        if self.in_atomic_block:
            self.closed_in_transaction = self.needs_rollback = True
        else:
            self.connection = None
            # At a commit: Django must not open a connection only to end the transaction.
            self.closed_in_transaction = not self.autocommit


def _datetime(text: str) -> datetime | None:
    """In a quarter of the driver's time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        value: datetime | None = DateTime_or_None(text)  # a zero date is None
        return value


def _limit_waiting(fileno: int) -> None:
    """Lets the kernel give up a connection whose other end has vanished. Not for a local socket."""
    with socket.socket(fileno=os.dup(fileno)) as duplicate:
        if duplicate.family not in (socket.AF_INET, socket.AF_INET6):
            return
        duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in SOCKET_OPTIONS.items():
            if hasattr(socket, name):  # not on every system
                duplicate.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_closed(fileno: int, seconds: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(fileno, CLOSED)
    return any(events & CLOSED for _, events in poll.poll(seconds * 1000))
