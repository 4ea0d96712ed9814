"""Choosing deliveries by what they have in common, newest first, a bounded stretch of the table at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from events.models import Event
from webhookhub.db import vendors

from .models import Saga
from .transitions import COMPLETED

# Numbers are given out in the order of time, but for the moments between reading the clock and inserting.
DISORDER = timedelta(minutes=15)


@dataclass(frozen=True)
class Choice:
    """Those for which everything that is not None holds; times are those of the delivery's beginning."""

    status: str | None = None
    subscription_id: int | None = None
    event_ids: Collection[int] | None = None
    event_type: str | None = None
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def by_events(self) -> bool:
        return self.event_type is not None or self.source is not None

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds exactly these, so that none has to be looked at in vain."""
        one_index = self.event_ids is not None or self.status is None or self.subscription_id is None
        return one_index and not self.by_events and self.since is None and self.until is None

    def _leading(self) -> tuple[str, str, Any] | None:
        """The index that leads in the order of the primary key, its column and the value there. None: that key."""
        # Almost all are Completed: then the subscription says more.
        if self.subscription_id is not None and self.status in (None, COMPLETED):
            return "idx_saga_subscription", "subscription_id", self.subscription_id
        return None if self.status is None else ("idx_saga_status", "status", self.status)

    def keep(self, sagas: Sequence[Saga]) -> list[Saga]:
        """Those of the looked at for which the other conditions hold too."""
        kept = [saga for saga in sagas if self._holds(saga)]
        if not self.by_events or not kept:
            return kept
        ids = {saga.event_id for saga in kept}
        ids = Event.objects.among(ids, event_type=self.event_type, source=self.source)
        return [saga for saga in kept if saga.event_id in ids]

    def _holds(self, saga: Saga) -> bool:
        return (
            (self.status is None or saga.status == self.status)
            and (self.subscription_id is None or saga.subscription_id == self.subscription_id)
            and (self.since is None or saga.created_at >= self.since)
            and (self.until is None or saga.created_at <= self.until)
        )


def newest_first(choice: Choice, lowest: int, before: int | None, most: int) -> list[Saga]:
    """The next of them below the id `before`, down to `lowest`; some may not be wanted, see Choice.keep."""
    if choice.event_ids is not None:
        return _of_events(choice, lowest, before, most)
    leading = choice._leading()
    if leading is None:
        within = {"id__gte": lowest, **_given({"id__lt": before})}
        return list(Saga.objects.filter(**within).order_by("-id")[:most])
    # In SQL, because the index must be named: of two that begin with the status MySQL takes the one that has to be
    # sorted, and reads all rows of that status for one page.
    index, column, value = leading
    table = vendors.by_index(connection, Saga._meta.db_table, index)
    conditions = f"{column} = %s AND id >= %s" + ("" if before is None else " AND id < %s")
    values = [value, lowest, *([] if before is None else [before]), most]
    sql = f"SELECT * FROM {table} WHERE {conditions} ORDER BY id DESC LIMIT %s"  # noqa: S608
    return list(Saga.objects.raw(sql, values))


def _of_events(choice: Choice, lowest: int, before: int | None, most: int) -> list[Saga]:
    """The events are few: their sagas are found by them, and sorted."""
    exact = {"status": choice.status, "subscription_id": choice.subscription_id, "id__lt": before}
    rows = Saga.objects.filter(event_id__in=choice.event_ids or [], id__gte=lowest, **_given(exact))
    return list(rows.order_by("-id")[:most])


def bounds(choice: Choice) -> tuple[int, int | None]:
    """The lowest id that can be among the chosen, and one that is above them all."""
    lowest = 1 if choice.since is None else first_id_at(choice.since - DISORDER)
    return lowest, None if choice.until is None else first_id_at(choice.until + DISORDER)


def first_id_at(moment: datetime) -> int:
    """The id from which on sagas begin at or after this moment: found by halving, along the primary key.

    An index over the time would find it at once, and would have to be written with every saga for that.
    """
    newest = Saga.objects.order_by("-id").values_list("id", flat=True).first() or 0
    low, high = 1, newest + 1
    while low < high:
        middle = (low + high) // 2
        rows = Saga.objects.filter(id__gte=middle).order_by("id").values_list("id", "created_at")
        id, created_at = rows[0]
        if created_at >= moment:
            high = middle
        else:
            low = id + 1
    return low


def _given(conditions: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in conditions.items() if value is not None}
