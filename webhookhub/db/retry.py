"""Repeats a transaction after a conflict with another one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, connection, transaction

from webhookhub.logs import Log, log

from . import vendors

T = TypeVar("T")
ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.01


def in_transaction(work: Callable[[], T]) -> T:
    """Runs `work` in one short transaction, and repeats the whole transaction after a deadlock or a lock time-out.

    Inside the caller's transaction it runs once: only a whole transaction may be repeated.
    """
    vendors.begin_with_one_statement(connection)
    return one_statement(transaction.atomic(work))


def one_statement(work: Callable[[], T]) -> T:
    """Runs `work`, a single statement that commits by itself, and repeats it like a transaction."""
    if connection.in_atomic_block:
        return work()
    for attempt in range(1, ATTEMPTS):
        try:
            return work()
        except DatabaseError as error:
            if not vendors.is_conflict(error):
                raise
            log(Log.DATABASE_CONFLICT, attempt=attempt, error=str(error))
            # Jitter, because the other transaction may be repeated too.
            time.sleep(FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311
    return work()
