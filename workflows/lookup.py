"""Finding runs, each query along an index."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Model, QuerySet

from .models import Instance, UsedDefinition

OVERLAP = timedelta(milliseconds=2)
Row = TypeVar("Row", bound=Model)


def find(term: str, limit: int) -> list[Instance]:
    """Runs with this saga id, correlation id or aggregate id, newest first. Does not need the definition files."""
    saga_types = set(UsedDefinition.objects.values_list("name", flat=True))
    table = Instance._meta.db_table
    selects = [
        f"SELECT * FROM (SELECT * FROM {table} WHERE aggregate_id = %s ORDER BY id DESC LIMIT %s) about"  # noqa: S608
    ]
    values: list[Any] = [term, limit]
    if saga_types:
        # The index starts with the type, so the correlation id alone could not use it.
        types = ", ".join(["%s"] * len(saga_types))
        selects.append(f"SELECT * FROM {table} WHERE saga_type IN ({types}) AND correlation_key = %s")  # noqa: S608
        values += [*saga_types, term]
    try:
        saga_id = Instance._meta.get_field("saga_id").get_db_prep_value(UUID(term), connection)
    except ValueError:
        pass
    else:
        selects.append(f"SELECT * FROM {table} WHERE saga_id = %s")  # noqa: S608
        values.append(saga_id)
    rows = {row.id: row for row in Instance.objects.raw(" UNION ALL ".join(selects), values)}
    return sorted(rows.values(), key=lambda row: -row.id)[:limit]


def in_period(
    rows: QuerySet[Row], column: str, since: datetime, until: datetime, batch_size: int
) -> Iterator[list[Row]]:
    """The rows of a period in the order of time, in batches, along the index of `column`."""
    rows = rows.filter(**{f"{column}__lte": until}).order_by(column, "id")
    seen: dict[int, datetime] = {}
    while True:
        batch = list(rows.filter(**{f"{column}__gte": since}).exclude(pk__in=seen)[:batch_size])
        if batch:
            yield batch
        if len(batch) < batch_size:
            return
        # With an overlap, without the ids already seen: an engine that stores times as text has several forms of one.
        since = getattr(batch[-1], column) - OVERLAP
        times = [*seen.items(), *((row.pk, getattr(row, column)) for row in batch)]
        seen = {pk: at for pk, at in times if at >= since}
