"""Whether a table holds a row of some kind, asked of several tables in one short statement."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection, models

from . import vendors


class Question(NamedTuple):
    """`condition` is SQL in which %s stands for `value` and {now} for the database's present moment."""

    model: type[models.Model]
    condition: str = "1 = 1"
    value: str | None = None


def any_row(*questions: Question) -> bool:
    now = vendors.utc_now_sql(connection).replace("%", "%%")
    parts = [
        f"EXISTS (SELECT 1 FROM {question.model._meta.db_table} WHERE {question.condition.format(now=now)})"  # noqa: S608
        for question in questions
    ]
    values = [question.value for question in questions if question.value is not None]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {' OR '.join(parts)}", values)
        return bool(cursor.fetchone()[0])
