"""The park: waiting sagas that may have no attempt yet, because their endpoint is busy, paused or limited.

A parked saga costs nothing until it is admitted. It is parked by one update, away from the head of the index of due
sagas, and admitted by one update, the oldest of its subscription first. Which subscriptions have parked sagas is read
from the index of the park.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Greatest

from jobs.create import after_last_attempt
from subscriptions.models import Subscription
from webhookhub.db.clock import UtcNow
from webhookhub.db.compiled import CompiledUpdate
from webhookhub.db.execute import execute
from webhookhub.db.retry import one_statement

from .models import PARKED, Saga
from .transitions import PENDING_RETRY

# The subscriptions whose oldest parked sagas one statement reads.
READ_AT_ONCE = 50
TABLE, SUBSCRIPTIONS = Saga._meta.db_table, Subscription._meta.db_table

# One look-up in the index per subscription, however many sagas are parked. Servers read the whole index for a recursive
# query that looks up the next subscription in each step, and often for SELECT DISTINCT.
PARKED_SUBSCRIPTIONS = f"""
SELECT id FROM {SUBSCRIPTIONS}
WHERE (SELECT parked_subscription_id FROM {TABLE} WHERE parked_subscription_id = {SUBSCRIPTIONS}.id LIMIT 1) IS NOT NULL
ORDER BY id
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


def subscriptions_with_parked() -> list[int]:
    """The ids of all subscriptions that have parked sagas."""
    if not Saga.objects.filter(parked_subscription_id__gt=0).exists():
        return []  # the usual case, without a look-up per subscription
    return [pk for (pk,) in execute(PARKED_SUBSCRIPTIONS, []).rows]


def oldest_parked(limits: Mapping[int, int]) -> list[tuple[int, int, str, int]]:
    """Id, subscription, status and attempt_count of the oldest parked sagas: of each subscription up to its limit."""
    rows: list[tuple[int, int, str, int]] = []
    wanted = list(limits.items())
    for start in range(0, len(wanted), READ_AT_ONCE):
        part = wanted[start : start + READ_AT_ONCE]
        parameters = [value for item in part for value in item]
        rows += execute("UNION ALL".join([OLDEST] * len(part)), parameters).rows
    return rows
