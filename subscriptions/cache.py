"""The router's cache of subscriptions, reloaded when a subscription has changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from django.db.models import QuerySet

from webhookhub.db.compiled import CompiledSelect

from .matching import NO_CUSTOMER, Index, RoutableSubscription
from .models import Subscription, SubscriptionVersion

COLUMNS = tuple(field.name for field in fields(RoutableSubscription))


def current_version() -> QuerySet[SubscriptionVersion, tuple[int]]:
    """The version of all subscriptions, for a subquery. The table has one row."""
    return SubscriptionVersion.objects.values_list("version")[:1]


_versions = CompiledSelect(current_version)


def subscription_version() -> int:
    """A number that changes with every change of a subscription."""
    return max((version for (version,) in _versions()), default=0)


class Versions(NamedTuple):
    """Numbers that change with every change of a subscription, and of an endpoint's health."""

    subscriptions: int = 0
    health: int = 0


_both = CompiledSelect(lambda: SubscriptionVersion.objects.values_list("version", "health")[:1])


def versions() -> Versions:
    return next((Versions(*row) for row in _both()), Versions())


class SubscriptionCache:
    """Reads one small row while nothing changes. Contains everything committed before its version was read.

    The subscriptions of a customer are loaded with the customer's first event after a change. When there are too many,
    all are dropped.
    """

    MAX_SUBSCRIPTIONS = 100_000

    def __init__(self) -> None:
        self._by_customer: dict[str, Mapping[str, Sequence[RoutableSubscription]]] = {}
        self._count = 0
        self._version: int | None = None

    def index(self, customer_keys: Iterable[str], version: int | None = None) -> Index:
        """The subscriptions of these customers, and those for all. `version` is given by a caller that has just read
        it."""
        # The version is read first: a change between the two reads causes another reload at the next call.
        if version is None:
            version = subscription_version()
        if version != self._version or self._count > self.MAX_SUBSCRIPTIONS:
            self._by_customer.clear()
            self._count = 0
            self._version = version
        missing = {NO_CUSTOMER, *customer_keys} - self._by_customer.keys()
        if missing:
            loaded = _load(sorted(missing))
            self._by_customer |= loaded
            self._count += sum(len(rows) for by_type in loaded.values() for rows in by_type.values())
        return self._by_customer


class OfSubscription(NamedTuple):
    """A subscription as the router sees it, and the events that it gets."""

    customer_key: str
    event_type: str
    subscription: RoutableSubscription


def routable(pk: int) -> OfSubscription | None:
    """A subscription as the router sees it now; None if it gets no new deliveries."""
    rows = Subscription.objects.routable().filter(id=pk)
    row = rows.values_list("customer_key", "event_type", *COLUMNS).first()
    return None if row is None else OfSubscription(row[0], row[1], RoutableSubscription(*row[2:]))


_of_customers = CompiledSelect(
    lambda customer_keys: (
        Subscription.objects.routable()
        .filter(customer_key__in=customer_keys)
        .order_by("id")
        .values_list("customer_key", "event_type", *COLUMNS)
    )
)


def _load(customer_keys: Sequence[str]) -> dict[str, dict[str, list[RoutableSubscription]]]:
    by_customer: dict[str, dict[str, list[RoutableSubscription]]] = {key: defaultdict(list) for key in customer_keys}
    for customer_key, event_type, *columns in _of_customers(customer_keys=customer_keys):
        by_customer[customer_key][event_type].append(RoutableSubscription(*columns))
    return {key: dict(by_type) for key, by_type in by_customer.items()}
