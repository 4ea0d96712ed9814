"""Whether tables hold rows of some kind, asked of several at once in one short statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection, models

from . import vendors


class Question(NamedTuple):
    """`condition` is SQL in which %s stands for `value` and {now} for the database's present moment."""

    model: type[models.Model]
    condition: str = "1 = 1"
    value: str | None = None


def any_row(*questions: Question) -> bool:
    """Whether there is a row for any of them."""
    return bool(_asked(questions, " OR ")[0])


def which(*questions: Question) -> list[bool]:
    """For each of them, whether there is a row."""
    return [bool(answer) for answer in _asked(questions, ", ")]


def _asked(questions: Sequence[Question], joined_by: str) -> Sequence[int]:
    now = vendors.utc_now_sql(connection).replace("%", "%%")
    parts = [
        f"EXISTS (SELECT 1 FROM {question.model._meta.db_table} WHERE {question.condition.format(now=now)})"  # noqa: S608
        for question in questions
    ]
    values = [question.value for question in questions if question.value is not None]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {joined_by.join(parts)}", values)
        answers: Sequence[int] = cursor.fetchone()
    return answers
