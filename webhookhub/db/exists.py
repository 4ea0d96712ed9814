"""Whether tables contain certain rows, asked of several tables in one short statement."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection, models

from . import vendors
from .execute import execute


class Condition(NamedTuple):
    """`sql` is a condition on the model's table in which %s stands for `value` and {now} for the database's time."""

    model: type[models.Model]
    sql: str = "1 = 1"
    value: str | None = None


def which_exist(*conditions: Condition) -> list[bool]:
    """For each condition, whether a row exists."""
    now = vendors.utc_now_sql(connection).replace("%", "%%")
    parts = [
        f"EXISTS (SELECT 1 FROM {condition.model._meta.db_table} WHERE {condition.sql.format(now=now)})"  # noqa: S608
        for condition in conditions
    ]
    values = [condition.value for condition in conditions if condition.value is not None]
    return [bool(exists) for exists in execute(f"SELECT {', '.join(parts)}", values).rows[0]]
