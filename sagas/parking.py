"""The park: waiting sagas that may have no attempt yet, because their endpoint is busy, paused or limited.

A parked saga costs nothing until it is admitted. It is parked by one update, away from the head of the index of due
sagas, and admitted by one update, the oldest of its subscription first. Which subscriptions have parked sagas is read
from the index of the park.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Greatest

from jobs.create import after_last_attempt
from webhookhub.db.clock import UtcNow
from webhookhub.db.compiled import CompiledUpdate
from webhookhub.db.execute import execute
from webhookhub.db.retry import one_statement

from .models import PARKED, Saga
from .transitions import PENDING_RETRY

# The subscriptions that one statement reads from the park.
READ_AT_ONCE = 50
# The look-ups of one call of ParkedSubscriptions.refresh(), about.
MAX_LOOK_UPS = 2000
TABLE = Saga._meta.db_table

NEXT = f"""
SELECT * FROM (
    SELECT parked_subscription_id FROM {TABLE}
    WHERE parked_subscription_id > %s ORDER BY parked_subscription_id LIMIT 1
) following
"""  # noqa: S608
OLDEST = f"""
SELECT * FROM (
    SELECT id, parked_subscription_id, status, attempt_count FROM {TABLE}
    WHERE parked_subscription_id = %s ORDER BY id LIMIT %s
) oldest
"""  # noqa: S608


def park(saga_ids: Sequence[int], status: str) -> int:
    """Park those of these sagas that are due; returns how many. No attempt is counted."""
    return one_statement(lambda: _to_parked(ids=saga_ids, status=status, at=PARKED)) if saga_ids else 0


_to_parked = CompiledUpdate(
    lambda ids, status, at: (
        Saga.objects.filter(id__in=ids, status=status, next_attempt_at__lte=UtcNow()),
        {"next_attempt_at": at, "updated_at": UtcNow()},
    )
)


def unpark(saga_ids: Sequence[int], status: str) -> int:
    """Make those of these sagas due that are parked; returns how many."""
    if not saga_ids:
        return 0
    if status == PENDING_RETRY:
        return one_statement(lambda: _retries_to_due(ids=saga_ids, status=status, at=PARKED))
    return one_statement(lambda: _to_due(ids=saga_ids, status=status, at=PARKED))


def _parked(ids: Any, status: Any, at: Any) -> QuerySet[Saga]:
    return Saga.objects.filter(id__in=ids, status=status, next_attempt_at__gte=at)


_to_due = CompiledUpdate(
    lambda **parked: (_parked(**parked), {"next_attempt_at": UtcNow(), "updated_at": UtcNow()}),
)
# Later than the attempt before, even if the database's clock was set back in between.
_retries_to_due = CompiledUpdate(
    lambda **parked: (
        _parked(**parked),
        {"next_attempt_at": Greatest(UtcNow(), after_last_attempt()), "updated_at": UtcNow()},
    ),
)


class ParkedSubscriptions:
    """The subscriptions that have parked sagas, read from the index of the park.

    Each look-up finds the next subscription after a known one: it confirms the one that is known to follow, or finds
    another. Servers read the whole index for SELECT DISTINCT and for a recursive query. Where there are very many, a
    call reads a part, and the next one continues.
    """

    def __init__(self) -> None:
        self.ids: set[int] = set()
        # Up to here they have been confirmed.
        self._position = 0

    def refresh(self) -> None:
        left = MAX_LOOK_UPS
        at_end = False
        while left > 0 and not at_end:
            known = sorted(self.ids)
            first = bisect_right(known, self._position)
            positions = [self._position, *known[first : first + READ_AT_ONCE - 1]]
            found = set(_following(positions))
            left -= len(positions)
            if found <= self.ids:
                # What was not found between two known ones has no parked sagas any more.
                last = max(found, default=0)
                at_end = last <= positions[-1]  # nothing follows the last position
                self.ids = {pk for pk in self.ids if pk <= self._position or (pk > last and not at_end)} | found
                self._position = 0 if at_end else last
            else:
                left -= self._explore(found - self.ids, left)

    def _explore(self, new: set[int], limit: int) -> int:
        """Add these subscriptions and the unknown ones that follow them; returns the number of look-ups."""
        count = 0
        while new and count < limit:
            self.ids |= new
            count += len(new)
            new = set(_following(sorted(new))) - self.ids
        return count

    def add(self, subscription_ids: Collection[int]) -> None:
        self.ids.update(subscription_ids)

    def discard(self, subscription_ids: Collection[int]) -> None:
        """These have no parked sagas any more."""
        self.ids.difference_update(subscription_ids)


def parked_subscriptions() -> list[int]:
    """The ids of the first subscriptions that have parked sagas; all, if there are not very many."""
    parked = ParkedSubscriptions()
    parked.refresh()
    return sorted(parked.ids)


def _following(positions: Sequence[int]) -> list[int]:
    """The first subscription with parked sagas after each of these, where there is one."""
    return [pk for (pk,) in execute("UNION ALL".join([NEXT] * len(positions)), list(positions)).rows]


def oldest_parked(limits: Mapping[int, int]) -> list[tuple[int, int, str, int]]:
    """Id, subscription, status and attempt_count of the oldest parked sagas: of each subscription up to its limit."""
    rows: list[tuple[int, int, str, int]] = []
    wanted = list(limits.items())
    for start in range(0, len(wanted), READ_AT_ONCE):
        part = wanted[start : start + READ_AT_ONCE]
        parameters = [value for item in part for value in item]
        rows += execute("UNION ALL".join([OLDEST] * len(part)), parameters).rows
    return rows
