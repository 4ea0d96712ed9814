"""The web server's second connection, which stores the events of the API with a database user of its own.

That user has the role `event_ingest_writer`, and the console's user needs no INSERT on events. Without the setting, the
usual connection stores them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from webhookhub.conf import INGEST_DATABASE_URL

ALIAS = "ingest"
# Loops are notified by the names of the database; only the user and the password may differ.
SAME = ("ENGINE", "HOST", "PORT", "NAME")
# How often the shared connection is checked, as Django checks a thread's connection before each request.
CHECK_SECONDS = 1.0


class _Shared:
    """The connection that the threads of this process use in turns, if it was set up."""

    connection: BaseDatabaseWrapper | None = None
    checked_at = 0.0


_shared = _Shared()


def is_configured() -> bool:
    return ALIAS in connections.settings


def share_connection() -> None:
    """One connection for all threads, whose requests are stored one group after the other: the server then keeps what
    it needs for one session only, instead of one per thread."""
    _shared.connection = connections.create_connection(ALIAS if is_configured() else DEFAULT_DB_ALIAS)
    _shared.connection.inc_thread_sharing()


@contextmanager
def ingest_connection() -> Iterator[None]:
    """Within it, this thread uses the connection for events. Not for use within a transaction, and only by one thread
    at a time."""
    own = _connection()
    if own is None:
        yield
        return
    usual = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = own
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = usual


def _connection() -> BaseDatabaseWrapper | None:
    own = _shared.connection
    if own is None:
        return connections[ALIAS] if is_configured() else None
    if time.monotonic() - _shared.checked_at > CHECK_SECONDS:
        own.close_if_unusable_or_obsolete()
        _shared.checked_at = time.monotonic()
    return own


def require_same_database() -> None:
    """Raises ImproperlyConfigured unless events go to the hub's own database."""
    if not is_configured():
        return
    usual, own = connections.settings[DEFAULT_DB_ALIAS], connections.settings[ALIAS]
    if any(usual[part] != own[part] for part in SAME):
        raise ImproperlyConfigured(
            f"{INGEST_DATABASE_URL} must name the same host, port and database as DATABASE_URL; only the user and the "
            "password may differ"
        )
