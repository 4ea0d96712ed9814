"""Which subscriptions an event is for. Pure: no database, no settings.

The cost does not depend on the number of customers: an event is looked up by its customer, and by its type and the
patterns of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

from . import patterns
from .filters import LabelFilter

# The key of subscriptions that are for all customers, and of events without a customer.
NO_CUSTOMER = ""


@dataclass(frozen=True, slots=True)
class RoutableSubscription:
    id: int
    max_retry_limit: int | None
    base_delay: timedelta | None
    retry_delays: tuple[int, ...] | None
    label_filter: LabelFilter | None = None
    endpoint_id: int | None = None


# By the customer's key, and the event type or pattern.
Index = Mapping[str, Mapping[str, Sequence[RoutableSubscription]]]


def matching(index: Index, customer_key: str, event_type: str) -> list[RoutableSubscription]:
    """The subscriptions of the event's customer, and those for all customers, to this event type or a pattern of it."""
    matches: list[RoutableSubscription] = []
    for owner in (NO_CUSTOMER, customer_key) if customer_key != NO_CUSTOMER else (NO_CUSTOMER,):
        if by_type := index.get(owner):
            for key in patterns.keys(event_type):
                matches += by_type.get(key, ())
    return matches


def once_per_endpoint(matches: Sequence[RoutableSubscription]) -> Sequence[RoutableSubscription]:
    """Of each endpoint the subscription with the lowest id: an event is delivered to an endpoint once."""
    if len(matches) < 2:
        return matches
    first: dict[int, RoutableSubscription] = {}
    for match in sorted(matches, key=attrgetter("id")):
        # One without an endpoint stands for itself.
        first.setdefault(match.endpoint_id or -match.id, match)
    return list(first.values())
