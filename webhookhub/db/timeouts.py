"""Asking a database that may not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections

from . import vendors


@contextmanager
def impatient(seconds: int) -> Iterator[None]:
    """Within it, this thread talks to the database over a connection of its own, which gives up after `seconds`.

    The thread's usual connection may rightly wait longer, and keeps what it has.
    """
    usual = connections[DEFAULT_DB_ALIAS]
    own = usual.copy()
    vendors.bound_everything(own, seconds)
    connections[DEFAULT_DB_ALIAS] = own
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = usual
        own.close()
