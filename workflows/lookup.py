"""Finding workflows by what people hold in their hands, each by its own index."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connection

from .models import Instance, UsedDefinition


def find(term: str, saga_types: Collection[str], most: int) -> list[Instance]:
    """Those with this saga id, correlation id or aggregate id, the latest first."""
    # All in one question: a page asks many.
    table = Instance._meta.db_table
    asked = [
        f"SELECT * FROM (SELECT * FROM {table} WHERE aggregate_id = %s ORDER BY id DESC LIMIT %s) about"  # noqa: S608
    ]
    values: list[Any] = [term, most]
    if saga_types:
        # The key starts with the type: by the correlation id alone no index could be used.
        types = ", ".join(["%s"] * len(saga_types))
        asked.append(f"SELECT * FROM {table} WHERE saga_type IN ({types}) AND correlation_key = %s")  # noqa: S608
        values += [*saga_types, term]
    try:
        saga_id = Instance._meta.get_field("saga_id").get_db_prep_value(UUID(term), connection)
    except ValueError:
        pass
    else:
        asked.append(f"SELECT * FROM {table} WHERE saga_id = %s")  # noqa: S608
        values.append(saga_id)
    every = {row.id: row for row in Instance.objects.raw(" UNION ALL ".join(asked), values)}
    return sorted(every.values(), key=lambda row: -row.id)[:most]


def types_in_use() -> list[str]:
    """The types of all sagas there are, of a table of a few rows: whether their files can be read is of no matter."""
    return sorted(set(UsedDefinition.objects.values_list("name", flat=True)))
