"""Choosing workflows by what they have in common, the latest first, a bounded stretch of the table at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from webhookhub.db import vendors

from .models import Instance
from .words import OPEN, STATUSES

# Numbers are given out nearly in the order of time: a saga's first event may be tracked late, or after another one.
DISORDER = timedelta(hours=1)
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Choice:
    """Those for which everything that is not None holds; a step is one of a type, so it needs one.

    Times are those of the beginning.
    """

    saga_type: str | None = None
    status: str | None = None
    step: str | None = None
    needs_operator: bool = False
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds exactly these, so that none has to be looked at in vain."""
        others = self.saga_type or self.status
        return self.since is None and self.until is None and not (self.needs_operator and others)

    def keep(self, rows: Sequence[Instance]) -> list[Instance]:
        """Those of the looked at for which the other conditions hold too."""
        return [row for row in rows if self._holds(row)]

    def _holds(self, row: Instance) -> bool:
        return (
            (self.saga_type is None or row.saga_type == self.saga_type)
            and (self.status is None or row.status == self.status)
            and (self.step is None or row.current_step == self.step)
            and (not self.needs_operator or row.needs_operator)
            and (self.since is None or row.started_at >= self.since)
            and (self.until is None or row.started_at <= self.until)
        )

    def _walks(self) -> list[tuple[str, dict[str, Any]]]:
        """The indexes to walk, each in the order of the primary key, and where; together they hold all of these."""
        if self.needs_operator:
            return [("idx_instance_operator", {"needs_operator": True})]
        statuses = STATUSES if self.status is None else (self.status,)
        if self.saga_type is not None and self.step is not None:
            named = {"saga_type": self.saga_type, "current_step": self.step}
            return [("idx_instance_step", {**named, "status": status}) for status in statuses]
        if self.saga_type is not None:
            return [("idx_instance_type", {"saga_type": self.saga_type, "status": status}) for status in statuses]
        return [("", {})] if self.status is None else [("idx_instance_status", {"status": self.status})]


def newest_first(choice: Choice, lowest: int, before: int | None, most: int) -> list[Instance]:
    """The next of them below the id `before`, down to `lowest`; some may not be wanted, see Choice.keep."""
    walks = choice._walks()
    if len(walks) == 1:
        return list(Instance.objects.raw(*_walk("*", *walks[0], lowest, before, most)))
    # The ids alone stand in the index; of the rows themselves no more are read than are wanted.
    ids = [_ids(*_walk("id", *walk, lowest, before, most)) for walk in walks]
    wanted = list(islice(merge(*ids, reverse=True), most))
    return sorted(Instance.objects.filter(id__in=wanted), key=lambda row: -row.id)


def _ids(sql: str, values: list[Any]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [id for (id,) in cursor.fetchall()]


def _walk(
    columns: str, index: str, named: dict[str, Any], lowest: int, before: int | None, most: int
) -> tuple[str, list[Any]]:
    # In SQL, because the index must be named: a server may prefer one that has to be sorted, or the primary key, and
    # then reads the whole table for one page.
    table = Instance._meta.db_table
    table = vendors.by_index(connection, table, index) if index else table
    conditions = [*(f"{column} = %s" for column in named), "id >= %s", *([] if before is None else ["id < %s"])]
    values = [*named.values(), lowest, *([] if before is None else [before]), most]
    sql = f"SELECT {columns} FROM {table} WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT %s"  # noqa: S608
    return sql, values


def bounds(choice: Choice) -> tuple[int, int | None]:
    """The lowest id that can be among the chosen, and one that is above them all."""
    lowest = 1 if choice.since is None else first_id_at(choice.since - DISORDER) or LARGEST_ID
    return lowest, None if choice.until is None else first_id_at(choice.until + DISORDER)


def first_id_at(moment: datetime) -> int | None:
    rows = Instance.objects.filter(started_at__gte=moment).order_by("started_at", "id")
    return rows.values_list("id", flat=True).first()


def soonest_due(after: tuple[datetime, int] | None, most: int) -> list[Instance]:
    """Open ones in the order in which they will time out; `after` is the deadline and id of the last one before.

    Of each no more than its times, for most are only looked at.
    """
    walks = [_due(status, after)[:most] for status in OPEN]
    return list(islice(merge(*walks, key=lambda row: (row.deadline, row.id)), most))


def _due(status: str, after: tuple[datetime, int] | None) -> QuerySet[Instance]:
    rows = Instance.objects.filter(status=status, deadline__isnull=False).order_by("deadline", "id")
    rows = rows.only("id", "deadline", "updated_at")
    if after is None:
        return rows
    deadline, id = after
    return rows.filter(deadline__gte=deadline).exclude(deadline=deadline, id__lte=id)
