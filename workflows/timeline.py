"""The timeline of a run: each fact with its event and the deliveries of that event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import ngettext

from events.models import Event
from sagas.models import Saga
from sagas.transitions import COMPLETED, DEAD_LETTERED
from webhookhub.egress.urls import masked

from .models import Fact, Instance

# A producer may repeat itself without end: the page shows no more.
MAX_FACTS = 500
MAX_DELIVERIES = 2000


@dataclass(frozen=True)
class Delivery:
    """The latest delivery of an event to one subscription."""

    id: int
    event_id: int
    event_type: str
    subscription_id: int
    receiver: str
    status: str
    attempts: int
    error_code: str | None

    @property
    def is_settled(self) -> bool:
        return self.status in (COMPLETED, DEAD_LETTERED)

    @property
    def is_dead(self) -> bool:
        return self.status == DEAD_LETTERED

    def __str__(self) -> str:
        """`inventory.reserved → payment service, PendingRetry, 5 attempts, http_503`"""
        times = ngettext("%(number)s attempt", "%(number)s attempts", self.attempts) % {"number": self.attempts}
        parts = [f"{self.event_type} → {self.receiver}", self.status, times, self.error_code]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Entry:
    fact: Fact
    event: Event | None
    deliveries: list[Delivery]


def timeline(instance: Instance, after: tuple[datetime, int] | None = None, limit: int = MAX_FACTS) -> list[Entry]:
    """In the order in which things happened. `after`: time and id of the last fact of the previous page."""
    rows = Fact.objects.filter(instance_id=instance.id).order_by("occurred_at", "id")
    if after is not None:
        at, id = after
        rows = rows.filter(occurred_at__gte=at).exclude(occurred_at=at, id__lte=id)
    facts = list(rows[:limit])
    event_ids = {fact.event_id for fact in facts if fact.event_id is not None}
    events = {event.id: event for event in Event.objects.defer("payload").filter(id__in=event_ids)}
    deliveries = deliveries_of(event_ids)
    return [Entry(fact, events.get(fact.event_id or 0), deliveries.get(fact.event_id or 0, [])) for fact in facts]


def deliveries_of(event_ids: Collection[int]) -> dict[int, list[Delivery]]:
    """Event → its latest delivery to each subscription."""
    rows = (
        Saga.objects.filter(event_id__in=event_ids)
        .order_by("event_id", "subscription_id", "generation")
        .values_list(
            "id",
            "event_id",
            "event__event_type",
            "subscription_id",
            "subscription__description",
            "subscription__callback_url",
            "status",
            "attempt_count",
            "final_error_code",
        )[:MAX_DELIVERIES]
    )
    latest: dict[tuple[int, int], Delivery] = {}
    for id, event_id, event_type, subscription_id, description, url, status, attempts, error_code in rows:
        # A later generation replaces the one before.
        latest[event_id, subscription_id] = Delivery(
            id, event_id, event_type, subscription_id, description or masked(url), status, attempts, error_code
        )
    result: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in latest.values():
        result[delivery.event_id].append(delivery)
    return result
