"""Rows that the check constraints refuse, such as those of a table that was filled before it had them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from webhookhub.db import vendors
from webhookhub.db.triggers import Check, Fill, Refusal, declared


@contextmanager
def unchecked() -> Iterator[None]:
    """Within it, this connection writes what it likes; MySQL has no such switch.

    Not within a transaction: a server commits when a trigger is dropped.
    """
    if not vendors.is_server(connection):
        off, on = "PRAGMA ignore_check_constraints = ON", "PRAGMA ignore_check_constraints = OFF"
    elif vendors.is_mariadb(connection):
        off = "SET check_constraint_checks = 0, @mode = @@sql_mode, sql_mode = ''"
        on = "SET check_constraint_checks = 1, sql_mode = @mode"
    else:
        pytest.skip("MySQL has no switch for check constraints")
    with _without_repeated_checks(), connection.cursor() as cursor:
        cursor.execute(off)
        try:
            yield
        finally:
            cursor.execute(on)


@contextmanager
def _without_repeated_checks() -> Iterator[None]:
    stored = vendors.triggers(connection) if vendors.checks_switched_off(connection) else {}
    repeating = [
        trigger
        for trigger in declared()
        if isinstance(trigger, Refusal | Fill) and trigger.name in stored and any(map(_is_check, trigger.rules))
    ]
    for trigger in repeating:
        others: Any = [rule for rule in trigger.rules if not _is_check(rule)]
        _create_again(replace(trigger, rules=others))
    try:
        yield
    finally:
        for trigger in repeating:
            _create_again(trigger)


def _is_check(rule: object) -> bool:
    return isinstance(rule, Check)


def _create_again(trigger: Refusal | Fill) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {trigger.name}", None)
        cursor.execute(trigger.create_sql(connection), None)
