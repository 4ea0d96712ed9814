"""Queries that must not wait long for the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections

from . import vendors


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
