"""What an error of the database means. Loops, the web server and commands decide by its kind, never by its code."""

from __future__ import annotations

import re
import sqlite3
from enum import Enum

from django.db import Error


class Kind(Enum):
    """`is_temporary`: the same work may succeed later. `closes`: the connection must not be used again, because a new
    one may lead to another server."""

    # The server cannot be reached, or has closed the connection.
    LOST = "lost"
    # The server accepts no writes: a replica, or a writer that was replaced.
    READ_ONLY = "read_only"
    # The server runs but does not serve its users: it is being maintained, or has lost its cluster.
    OFFLINE = "offline"
    # The disk or the table space is full.
    FULL = "full"
    # A conflict with another transaction: the whole transaction may be repeated at once.
    CONFLICT = "conflict"
    # The server accepts no further connections, or has no memory or threads for one.
    REFUSED = "refused"
    # The server has ended a statement that took longer than the server allows.
    TIMEOUT = "timeout"
    # The user name, the password, the host or the name of the database is wrong.
    LOGIN = "login"
    # The user lacks a privilege.
    DENIED = "denied"
    # A row with this key exists.
    DUPLICATE = "duplicate"
    OTHER = "other"

    @property
    def is_temporary(self) -> bool:
        return self in _TEMPORARY

    @property
    def closes(self) -> bool:
        return self in _CLOSING


_TEMPORARY = {
    Kind.LOST,
    Kind.READ_ONLY,
    Kind.OFFLINE,
    Kind.FULL,
    Kind.CONFLICT,
    Kind.REFUSED,
    Kind.TIMEOUT,
}
_CLOSING = {Kind.LOST, Kind.READ_ONLY, Kind.OFFLINE}

# The codes of MySQL and MariaDB; below 2000 or above 2999 from the server, between them from the client library.
# Not 1317: a statement that was interrupted (by KILL QUERY, or at a row limit) fails again if it is only repeated.
SERVER_CODES: dict[int, Kind] = {
    0: Kind.LOST,  # the driver: the connection was closed under it
    1053: Kind.LOST,  # the server is shutting down
    1077: Kind.LOST,  # normal shutdown
    1079: Kind.LOST,  # shutdown complete
    1080: Kind.LOST,  # the server forces a thread to close
    1152: Kind.LOST,  # aborted connection
    1158: Kind.LOST,  # error while reading packets
    1159: Kind.LOST,  # time-out while reading packets
    1160: Kind.LOST,  # error while writing packets
    1161: Kind.LOST,  # time-out while writing packets
    1184: Kind.LOST,  # aborted new connection
    1927: Kind.LOST,  # MariaDB: the connection was killed
    2002: Kind.LOST,  # cannot connect through the socket
    2003: Kind.LOST,  # cannot connect to the host
    2005: Kind.LOST,  # unknown host
    2006: Kind.LOST,  # the server has gone away
    2012: Kind.LOST,  # error in the handshake
    2013: Kind.LOST,  # connection lost during a statement, or no response within the read time-out
    2014: Kind.LOST,  # commands out of sync: the connection cannot be used again
    2026: Kind.LOST,  # TLS error
    2027: Kind.LOST,  # malformed packet
    2055: Kind.LOST,  # connection lost, with a system error
    3169: Kind.LOST,  # MySQL: the session was killed
    4031: Kind.LOST,  # MySQL: idle for longer than wait_timeout
    9001: Kind.LOST,  # ProxySQL: no server reached in time
    1015: Kind.READ_ONLY,  # MySQL: no table can be locked, because innodb_read_only is on
    1036: Kind.READ_ONLY,  # the table is read-only: innodb_read_only, or a forced recovery
    1290: Kind.READ_ONLY,  # read_only or super_read_only
    1792: Kind.READ_ONLY,  # the transaction is read-only
    1836: Kind.READ_ONLY,  # the server runs in read-only mode
    1881: Kind.READ_ONLY,  # innodb_force_recovery
    1047: Kind.OFFLINE,  # a Galera node that is not ready or has no majority
    1180: Kind.OFFLINE,  # the commit failed: a Galera node that lost its majority
    3032: Kind.OFFLINE,  # offline_mode, which a member that was expelled from its group sets
    3100: Kind.OFFLINE,  # a member that cannot reach its group
    3168: Kind.OFFLINE,  # the server is not available
    6400: Kind.OFFLINE,  # MySQL 9: offline_mode, with the time and the reason
    6401: Kind.OFFLINE,  # MySQL 9: offline_mode, with the time and the user who set it
    3: Kind.FULL,  # error while writing a temporary file
    1021: Kind.FULL,  # disk full
    1026: Kind.FULL,  # error while writing a file
    1114: Kind.FULL,  # table or table space full
    1878: Kind.FULL,  # error while writing a temporary file of an ALTER TABLE
    1020: Kind.CONFLICT,  # MariaDB: the record has changed since it was read
    1205: Kind.CONFLICT,  # lock wait time-out
    1213: Kind.CONFLICT,  # deadlock
    3101: Kind.CONFLICT,  # a group has rolled back the transaction at its commit
    1040: Kind.REFUSED,  # too many connections
    1041: Kind.REFUSED,  # out of memory
    1129: Kind.REFUSED,  # the host is blocked after many connection errors
    1135: Kind.REFUSED,  # no thread for the connection
    1203: Kind.REFUSED,  # too many connections of this user
    1226: Kind.REFUSED,  # a resource limit of this user
    1969: Kind.TIMEOUT,  # MariaDB: max_statement_time
    3024: Kind.TIMEOUT,  # MySQL: max_execution_time
    1044: Kind.LOGIN,  # no access to the database
    1045: Kind.LOGIN,  # wrong user name or password
    1049: Kind.LOGIN,  # unknown database
    1130: Kind.LOGIN,  # the user may not connect from this host
    1698: Kind.LOGIN,  # wrong authentication method
    2059: Kind.LOGIN,  # unknown authentication method
    3118: Kind.LOGIN,  # MySQL: the account is locked
    3159: Kind.LOGIN,  # the server requires TLS
    4151: Kind.LOGIN,  # MariaDB: the account is locked
    1142: Kind.DENIED,  # on a table
    1143: Kind.DENIED,  # on a column
    1227: Kind.DENIED,  # for the statement
    1370: Kind.DENIED,  # on a routine
    1410: Kind.DENIED,  # to grant a role
    1062: Kind.DUPLICATE,  # without the name of the key
    1586: Kind.DUPLICATE,  # with the name of the key
}
# Errors with another cause in their text: the system's error 28 is a full disk.
_WITH_SYSTEM_ERROR = {1030, 1180}
_NO_SPACE = re.compile(r"\b28\b")

# SQLite's primary codes, and the extended ones of keys.
EMBEDDED_CODES: dict[int, Kind] = {
    sqlite3.SQLITE_CANTOPEN: Kind.LOST,
    sqlite3.SQLITE_IOERR: Kind.LOST,
    sqlite3.SQLITE_READONLY: Kind.READ_ONLY,
    sqlite3.SQLITE_FULL: Kind.FULL,
    sqlite3.SQLITE_BUSY: Kind.CONFLICT,
    sqlite3.SQLITE_LOCKED: Kind.CONFLICT,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: Kind.DUPLICATE,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: Kind.DUPLICATE,
    sqlite3.SQLITE_CONSTRAINT_ROWID: Kind.DUPLICATE,
}
_PRIMARY = 0xFF

# When a server last reported an error of each kind to this process, by the monotonic clock.
last_seen: dict[Kind, float] = {}


def code_of(error: BaseException) -> int | None:
    """The server's code; None for an error of the embedded database and for any other exception."""
    code = error.args[0] if error.args else None
    return code if isinstance(code, int) else None


def kind_of(error: BaseException) -> Kind:
    """The kind of an error of the database; OTHER for any other exception."""
    if not isinstance(error, Error):
        return Kind.OTHER
    code = code_of(error)
    if code is not None:
        if code in _WITH_SYSTEM_ERROR and _NO_SPACE.search(str(error.args[1:])):
            return Kind.FULL
        return SERVER_CODES.get(code, Kind.OTHER)
    embedded = getattr(error.__cause__, "sqlite_errorcode", None)
    if embedded is None:
        return Kind.OTHER
    return EMBEDDED_CODES.get(embedded) or EMBEDDED_CODES.get(embedded & _PRIMARY, Kind.OTHER)
