"""How an endpoint has been doing: from kept summaries, and from a bounded look at its newest deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from deadletters.models import DeadLetter
from sagas.filters import DeliveryFilter
from sagas.models import Saga
from sagas.transitions import COMPLETED, DEAD_LETTERED
from webhookhub.db import clock
from webhookhub.stats import queries
from webhookhub.stats.queries import Summary

NEWEST = 200
MOST_FAILURES = 5
DAY = timedelta(days=1)
WEEK = timedelta(days=7)


@dataclass(frozen=True)
class Health:
    day: Summary
    week: Summary
    # Of the newest deliveries looked at; if there is none, by the summaries, which know the minute or the hour.
    last_success: Saga | None
    last_success_about: datetime | None
    failing: list[Saga]
    dead: list[DeadLetter]
    looked_at: int

    @property
    def is_unused(self) -> bool:
        return not self.looked_at and not self.week["attempts"]


def of(subscription_id: int) -> Health:
    now = clock.now()
    before, day = queries.of_subscription(subscription_id, now - WEEK, now - DAY, now)
    newest = DeliveryFilter(subscription_id=subscription_id).newest_first(1, None, NEWEST)
    delivered = [saga for saga in newest if saga.status == COMPLETED]
    open_failures = [
        saga for saga in newest if saga.status not in (COMPLETED, DEAD_LETTERED) and saga.final_error_code is not None
    ]
    dead = DeadLetter.objects.filter(subscription=subscription_id).order_by("-failed_at", "-id")
    return Health(
        day=day,
        week=before + day,
        last_success=max(delivered, key=lambda saga: saga.updated_at, default=None),
        last_success_about=None if delivered else queries.last_success(subscription_id),
        failing=open_failures[:MOST_FAILURES],
        dead=list(dead.defer("payload_snapshot")[:MOST_FAILURES]),
        looked_at=len(newest),
    )
