"""Filters for runs, as keyset pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from webhookhub.db import keyset

from .models import Instance
from .state import OPEN, STATUSES

# Ids follow the start times except for runs whose first event was tracked late.
DISORDER = timedelta(hours=1)
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class RunFilter:
    """All conditions that are not None must hold. `step` needs `saga_type`; times are those of the start."""

    saga_type: str | None = None
    status: str | None = None
    step: str | None = None
    needs_operator: bool = False
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether newest_first() returns matching rows only, so that matching() is not needed."""
        others = self.saga_type or self.status
        return self.since is None and self.until is None and not (self.needs_operator and others)

    def matching(self, runs: Sequence[Instance]) -> list[Instance]:
        """The rows that match all conditions."""
        return [run for run in runs if self._matches(run)]

    def newest_first(self, lowest: int, before: int | None, limit: int) -> list[Instance]:
        """The next rows below the id `before`, down to `lowest`; they match the indexed conditions."""
        after = None if before is None else [before]
        queries: list[dict[str, Any]] = [
            {"index": index, "where": {**conditions, "id__gte": lowest}, "after": after, "limit": limit}
            for index, conditions in self._indexes()
        ]
        if len(queries) == 1:
            return keyset.rows(Instance, **queries[0])
        # Read the ids from the indexes first, then only the rows of this page.
        ids = [keyset.ids(Instance, **query) for query in queries]
        page = list(islice(merge(*ids, reverse=True), limit))
        return sorted(Instance.objects.filter(id__in=page), key=lambda run: -run.id)

    def bounds(self) -> tuple[int, int | None]:
        """The lowest id that can match, and an id above all that match."""
        lowest = 1 if self.since is None else first_id_at(self.since - DISORDER) or LARGEST_ID
        return lowest, None if self.until is None else first_id_at(self.until + DISORDER)

    def _matches(self, run: Instance) -> bool:
        return (
            (self.saga_type is None or run.saga_type == self.saga_type)
            and (self.status is None or run.status == self.status)
            and (self.step is None or run.current_step == self.step)
            and (not self.needs_operator or run.needs_operator)
            and (self.since is None or run.started_at >= self.since)
            and (self.until is None or run.started_at <= self.until)
        )

    def _indexes(self) -> list[tuple[str | None, dict[str, Any]]]:
        """The indexes to read in the order of the id (None: the primary key) and their conditions."""
        if self.needs_operator:
            return [("idx_instance_operator", {"needs_operator": True})]
        statuses = STATUSES if self.status is None else (self.status,)
        if self.saga_type is not None and self.step is not None:
            step = {"saga_type": self.saga_type, "current_step": self.step}
            return [("idx_instance_step", {**step, "status": status}) for status in statuses]
        if self.saga_type is not None:
            return [("idx_instance_type", {"saga_type": self.saga_type, "status": status}) for status in statuses]
        return [(None, {})] if self.status is None else [("idx_instance_status", {"status": self.status})]


def first_id_at(time: datetime) -> int | None:
    """The id of the first run that started at or after this time."""
    runs = Instance.objects.filter(started_at__gte=time).order_by("started_at", "id")
    return runs.values_list("id", flat=True).first()


def soonest_due(after: tuple[datetime, int] | None, limit: int) -> list[Instance]:
    """Open runs in the order of their deadlines; `after`: deadline and id of the last run of the previous page.

    Only id, deadline and updated_at are read.
    """
    due = [_due(status, after)[:limit] for status in OPEN]
    return list(islice(merge(*due, key=lambda run: (run.deadline, run.id)), limit))


def _due(status: str, after: tuple[datetime, int] | None) -> QuerySet[Instance]:
    runs = Instance.objects.filter(status=status, deadline__isnull=False).order_by("deadline", "id")
    runs = runs.only("id", "deadline", "updated_at")
    if after is None:
        return runs
    deadline, pk = after
    return runs.filter(deadline__gte=deadline).exclude(deadline=deadline, id__lte=pk)
