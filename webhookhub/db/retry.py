"""Repeats a transaction after a conflict with another one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import inf
from typing import TypeVar

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, transaction

from webhookhub.logs import Log, log

from .errors import Kind, kind_of

T = TypeVar("T")
ATTEMPTS = 8
# The key in a connection's settings of how many seconds after its start a transaction may be repeated.
GIVE_UP_AFTER = "GIVE_UP_AFTER"
FIRST_PAUSE_SECONDS = 0.01


def in_transaction(work: Callable[[], T]) -> T:
    """Runs `work` in one short transaction, and repeats the whole transaction after a deadlock or a lock time-out.

    Inside the caller's transaction it runs once: only a whole transaction may be repeated.
    """
    return one_statement(transaction.atomic(work))


def one_statement(work: Callable[[], T]) -> T:
    """Runs `work`, a single statement that commits by itself, and repeats it like a transaction."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.in_atomic_block:
        return work()
    give_up_at = time.monotonic() + connection.settings_dict.get(GIVE_UP_AFTER, inf)
    for attempt in range(1, ATTEMPTS):
        try:
            return work()
        except DatabaseError as error:
            if kind_of(error) is not Kind.CONFLICT or time.monotonic() >= give_up_at:
                raise
            log(Log.DATABASE_CONFLICT, attempt=attempt, error=str(error))
            # Jitter, because the other transaction may be repeated too.
            time.sleep(FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311
    return work()
