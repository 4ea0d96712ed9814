"""Statements that may take less or more time than others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections

from . import vendors

# For statements over whole tables. A server that has vanished is noticed earlier, by TCP keepalive.
LONG_SECONDS = 3600


@contextmanager
def short_timeouts(seconds: int, alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Gives this thread a separate connection that gives up after `seconds`, with the user of `alias`.

    The thread's usual connection may wait longer, and stays as it is.
    """
    usual = connections[DEFAULT_DB_ALIAS]
    separate = connections[alias].copy()
    vendors.bound_everything(separate, seconds)
    connections[DEFAULT_DB_ALIAS] = separate
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = usual
        separate.close()


@contextmanager
def long_statements(alias: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Lets the statements of a command take longer than those of loops and requests. Not for use in a transaction."""
    connection = connections[alias]
    if connection.in_atomic_block:
        yield
        return
    before = dict(connection.settings_dict["OPTIONS"])
    vendors.bound_waiting(connection, LONG_SECONDS)
    try:
        yield
    finally:
        connection.settings_dict["OPTIONS"] = before
        connection.close()
