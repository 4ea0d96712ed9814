"""Filters for deliveries, as keyset pages from the newest to the oldest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from events.models import Event
from subscriptions.models import Subscription
from webhookhub.db import keyset

from .models import Saga
from .transitions import COMPLETED

# Ids follow created_at, except for the time between reading the clock and inserting.
MAX_CLOCK_SKEW = timedelta(minutes=15)


@dataclass(frozen=True)
class DeliveryFilter:
    """Deliveries for which every condition holds that is not None; `since` and `until` compare created_at.

    `customer` is the event's customer, `owner` the customer that owns the subscription.
    """

    status: str | None = None
    subscription_id: int | None = None
    event_ids: Collection[int] | None = None
    event_type: str | None = None
    source: str | None = None
    customer: str | None = None
    owner: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether newest_first() returns matching rows only, so that matching() is not needed."""
        given = [self.status is not None, self.subscription_id is not None, self._customer is not None]
        one_index = (self.event_ids is not None and self._customer is None) or sum(given) <= 1
        others = (self.owner, self.since, self.until)
        return one_index and not self._needs_events and all(value is None for value in others)

    def matching(self, sagas: Sequence[Saga]) -> list[Saga]:
        """The rows that match all conditions."""
        rows = [saga for saga in sagas if self._matches(saga)]
        if self.owner is not None and rows:
            ids = {saga.subscription_id for saga in rows}
            owned = set(Subscription.objects.filter(id__in=ids, customer_key=self.owner).values_list("id", flat=True))
            rows = [saga for saga in rows if saga.subscription_id in owned]
        if not self._needs_events or not rows:
            return rows
        ids = {saga.event_id for saga in rows}
        ids = Event.objects.among(ids, event_type=self.event_type, source=self.source)
        return [saga for saga in rows if saga.event_id in ids]

    def newest_first(self, lowest: int, before: int | None, limit: int) -> list[Saga]:
        """The next rows below the id `before`, down to `lowest`; they match the indexed conditions."""
        if self.event_ids is not None:
            return self._of_events(self.event_ids, lowest, before, limit)
        after = None if before is None else [before]
        index, where = self._index()
        return keyset.rows(Saga, index=index, where={**where, "id__gte": lowest}, after=after, limit=limit)

    def bounds(self) -> tuple[int, int | None]:
        """The lowest id that can match, and an id above all that match."""
        lowest = 1 if self.since is None else first_id_at(self.since - MAX_CLOCK_SKEW)
        return lowest, None if self.until is None else first_id_at(self.until + MAX_CLOCK_SKEW)

    @property
    def _needs_events(self) -> bool:
        return self.event_type is not None or self.source is not None

    @property
    def _customer(self) -> str | None:
        """The event's customer. The owner of a subscription gets only its own events."""
        return self.customer if self.owner is None else self.owner

    def _matches(self, saga: Saga) -> bool:
        return (
            (self.status is None or saga.status == self.status)
            and (self.subscription_id is None or saga.subscription_id == self.subscription_id)
            and (self.customer is None or saga.customer_key == self.customer)
            and (self.owner is None or saga.customer_key == self.owner)
            and (self.since is None or saga.created_at >= self.since)
            and (self.until is None or saga.created_at <= self.until)
        )

    def _index(self) -> tuple[str | None, dict[str, object]]:
        # Almost all deliveries are Completed: then the subscription is the more selective condition.
        if self.subscription_id is not None and self.status in (None, COMPLETED):
            return "idx_saga_subscription", {"subscription_id": self.subscription_id}
        if self._customer is not None and self.status in (None, COMPLETED):
            return "idx_saga_customer", {"customer_key": self._customer}
        return (None, {}) if self.status is None else ("idx_saga_status", {"status": self.status})

    def _of_events(self, event_ids: Collection[int], lowest: int, before: int | None, limit: int) -> list[Saga]:
        """A few events have few deliveries: find them by event and sort."""
        wanted = {"status": self.status, "subscription_id": self.subscription_id, "id__lt": before}
        conditions = {name: value for name, value in wanted.items() if value is not None}
        return list(Saga.objects.filter(event_id__in=event_ids, id__gte=lowest, **conditions).order_by("-id")[:limit])


def first_id_at(time: datetime) -> int:
    """The first id created at or after this time, by binary search along the primary key.

    An index on created_at would find it at once, but would be written with every delivery.
    """
    newest = Saga.objects.order_by("-id").values_list("id", flat=True).first() or 0
    low, high = 1, newest + 1
    while low < high:
        middle = (low + high) // 2
        rows = Saga.objects.filter(id__gte=middle).order_by("id").values_list("id", "created_at")
        pk, created_at = rows[0]
        if created_at >= time:
            high = middle
        else:
            low = pk + 1
    return low
