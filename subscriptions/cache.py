"""The router's cache of subscriptions, reloaded when a subscription has changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import NamedTuple

from django.db.models import QuerySet

from webhookhub.db.compiled import CompiledSelect

from .filters import LabelFilter
from .models import Subscription, SubscriptionVersion


@dataclass(frozen=True, slots=True)
class RoutableSubscription:
    id: int
    max_retry_limit: int | None
    base_delay: timedelta | None
    retry_delays: tuple[int, ...] | None
    label_filter: LabelFilter | None = None


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
    """Reads one small row while nothing changes. Contains everything committed before its version was read."""

    def __init__(self) -> None:
        self._by_type: dict[str, list[RoutableSubscription]] = {}
        self._version: int | None = None

    def by_event_type(self, version: int | None = None) -> dict[str, list[RoutableSubscription]]:
        """`version` is given by a caller that has just read it."""
        # The version is read first: a change between the two reads causes another reload at the next call.
        if version is None:
            version = subscription_version()
        if version != self._version:
            self._by_type = _load()
            self._version = version
        return self._by_type


def routable(pk: int) -> tuple[str, RoutableSubscription] | None:
    """A subscription and its event type as the router sees it now; None if it gets no new deliveries."""
    rows = Subscription.objects.routable().filter(id=pk)
    row = rows.values_list("event_type", *COLUMNS).first()
    return None if row is None else (row[0], RoutableSubscription(*row[1:]))


def _load() -> dict[str, list[RoutableSubscription]]:
    by_type: dict[str, list[RoutableSubscription]] = defaultdict(list)
    rows = Subscription.objects.routable().order_by("id")
    for event_type, *columns in rows.values_list("event_type", *COLUMNS):
        by_type[event_type].append(RoutableSubscription(*columns))
    return dict(by_type)
