"""Rolls up old minutes into hours and deletes old hours, one bounded batch at a time."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.bulk import add_up
from webhookhub.db.retry import in_transaction

from .attempts import KEY
from .models import COUNTED, HOUR, MINUTE, Period, WorkflowPeriod

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


class _LateResult(Exception):
    """A late result was added to the minute that is being rolled up."""


def roll_up(batch_size: int) -> int:
    """One batch of each; returns the number of periods that were rolled up or deleted."""
    now = clock.now()
    try:
        rolled_up = in_transaction(lambda: _minutes_to_hours(now - hub().stats_by_minute, batch_size))
    except _LateResult:
        rolled_up = 1  # try again at the next turn
    oldest = now - hub().stats_by_hour
    deleted = in_transaction(lambda: _delete_hours(oldest, batch_size))
    return rolled_up + deleted + in_transaction(lambda: _delete_workflow_hours(oldest))


def _minutes_to_hours(before: datetime, batch_size: int) -> int:
    """Add to the hour and delete in one transaction. A result that arrives later creates the minute again."""
    head = _head(MINUTE, before, batch_size)
    if head is None:
        return 0
    minute, last = head
    batch = Period.objects.filter(period=MINUTE, starts_at=minute, subscription_id__lte=last)
    hours: dict[tuple[str, datetime, int, int], list[int]] = defaultdict(lambda: [0] * len(COUNTED))
    rows = list(batch.select_for_update().values_list("subscription_id", *COUNTED))
    for subscription_id, *counts in rows:
        hour = hours[HOUR, minute.replace(minute=0), subscription_id, 0]
        hour[:] = [one + other for one, other in zip(hour, counts, strict=True)]
    add_up(Period, KEY, COUNTED, hours)
    if batch.delete()[0] != len(rows):
        raise _LateResult
    return len(hours)


def _delete_hours(before: datetime, batch_size: int) -> int:
    head = _head(HOUR, before, batch_size)
    if head is None:
        return 0
    hour, last = head
    return Period.objects.filter(period=HOUR, starts_at=hour, subscription_id__lte=last).delete()[0]


def _delete_workflow_hours(before: datetime) -> int:
    """The oldest hour: its rows are few, one for each workflow and shard."""
    rows = WorkflowPeriod.objects.filter(starts_at__lt=before).order_by("starts_at", "workflow", "shard")
    hour = rows.values_list("starts_at", flat=True).first()
    return 0 if hour is None else WorkflowPeriod.objects.filter(starts_at=hour).delete()[0]


def _head(period: str, before: datetime, batch_size: int) -> tuple[datetime, int] | None:
    """The oldest period before this time, and the last subscription of its first batch."""
    # One read: between two, another cleaner may roll up the rows.
    # Not those with the zero date, which another program has written by SQL and which reads as no time.
    old = Period.objects.filter(period=period, starts_at__gte=EARLIEST, starts_at__lt=before)
    old = old.order_by("starts_at", "subscription_id", "shard")
    rows = list(old.values_list("starts_at", "subscription_id")[:batch_size])
    if not rows:
        return None
    oldest = rows[0][0]
    return oldest, max(subscription_id for starts_at, subscription_id in rows if starts_at == oldest)
