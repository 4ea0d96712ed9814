"""Which subscriptions an event is for. Pure: no database, no settings.

The cost does not depend on the number of customers: an event is looked up by its customer and its type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

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


# By the customer's key and the event type.
Index = Mapping[str, Mapping[str, Sequence[RoutableSubscription]]]
NONE: Mapping[str, Sequence[RoutableSubscription]] = {}


def matching(index: Index, customer_key: str, event_type: str) -> list[RoutableSubscription]:
    """The subscriptions of the event's customer, and those for all customers, to this event type."""
    matches = list(index.get(NO_CUSTOMER, NONE).get(event_type, ()))
    if customer_key != NO_CUSTOMER:
        matches += index.get(customer_key, NONE).get(event_type, ())
    return matches
