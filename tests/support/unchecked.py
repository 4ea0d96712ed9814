"""Rows that the check constraints refuse, such as those of a table that was filled before it had them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from webhookhub.db import vendors


@contextmanager
def unchecked() -> Iterator[None]:
    """Within it, this connection writes what it likes; MySQL has no such switch."""
    if not vendors.is_server(connection):
        off, on = "PRAGMA ignore_check_constraints = ON", "PRAGMA ignore_check_constraints = OFF"
    elif vendors.is_mariadb(connection):
        off = "SET check_constraint_checks = 0, @mode = @@sql_mode, sql_mode = ''"
        on = "SET check_constraint_checks = 1, sql_mode = @mode"
    else:
        pytest.skip("MySQL has no switch for check constraints")
    with connection.cursor() as cursor:
        cursor.execute(off)
        try:
            yield
        finally:
            cursor.execute(on)
