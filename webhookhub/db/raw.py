"""Queries that Django's ORM cannot express."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection


def select(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
