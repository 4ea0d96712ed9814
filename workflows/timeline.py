"""What happened in a saga, in order: each fact with its event, and with what became of that event's deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.utils.translation import ngettext

from events.models import Event
from sagas.models import Saga
from sagas.transitions import COMPLETED, DEAD_LETTERED
from webhookhub.egress.urls import masked

from .models import Fact, Instance

# More than any saga has that is in its right mind: a producer may repeat itself under new ids for ever.
MOST_FACTS = 500
MOST_DELIVERIES = 2000


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
        """`inventory.reserved → payment service, 5 attempts, http_503`"""
        times = ngettext("%(number)s attempt", "%(number)s attempts", self.attempts) % {"number": self.attempts}
        parts = [f"{self.event_type} → {self.receiver}", self.status, times, self.error_code]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Entry:
    fact: Fact
    event: Event | None
    deliveries: list[Delivery] = field(default_factory=list)


def timeline(instance: Instance) -> list[Entry]:
    """By the time at which things happened; at most MOST_FACTS of them, the first."""
    return entries(facts_of(instance, None, MOST_FACTS))


def facts_of(instance: Instance, after: tuple[datetime, int] | None, most: int) -> list[Fact]:
    """In the order in which things happened; `after` is the time and id of the last one before."""
    rows = Fact.objects.filter(instance_id=instance.id).order_by("occurred_at", "id")
    if after is not None:
        at, id = after
        rows = rows.filter(occurred_at__gte=at).exclude(occurred_at=at, id__lte=id)
    return list(rows[:most])


def entries(facts: Sequence[Fact]) -> list[Entry]:
    event_ids = {fact.event_id for fact in facts if fact.event_id is not None}
    events = {event.id: event for event in Event.objects.defer("payload").filter(id__in=event_ids)}
    found = deliveries_of(event_ids)
    return [Entry(fact, events.get(fact.event_id or 0), found.get(fact.event_id or 0, [])) for fact in facts]


def deliveries_of(event_ids: Collection[int]) -> dict[int, list[Delivery]]:
    """The events' deliveries, of each subscription the latest; in the order of the subscriptions."""
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
        )[:MOST_DELIVERIES]
    )
    latest: dict[tuple[int, int], Delivery] = {}
    for id, event_id, event_type, subscription_id, description, url, status, attempts, error_code in rows:
        # A later generation takes the place of the one before.
        latest[event_id, subscription_id] = Delivery(
            id, event_id, event_type, subscription_id, description or masked(url), status, attempts, error_code
        )
    found: dict[int, list[Delivery]] = defaultdict(list)
    for delivery in latest.values():
        found[delivery.event_id].append(delivery)
    return found
