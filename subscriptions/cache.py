"""The router's copy of who wants what, read anew whenever a subscription has changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from webhookhub.db.compiled import CompiledSelect

from .models import Subscription, SubscriptionVersion


@dataclass(frozen=True, slots=True)
class RoutableSubscription:
    id: int
    max_retry_limit: int | None
    base_delay: timedelta | None


# There is one.
_versions = CompiledSelect(lambda: SubscriptionVersion.objects.values_list("version"))


class SubscriptionCache:
    """Costs one small read while nothing changes. What was committed before `by_event_type` is called is in it."""

    def __init__(self) -> None:
        self._by_type: dict[str, list[RoutableSubscription]] = {}
        self._version: int | None = None

    def by_event_type(self) -> dict[str, list[RoutableSubscription]]:
        # The number first: a change that comes in between is read now and noticed again at the next call.
        version = max((version for (version,) in _versions()), default=0)
        if version != self._version:
            self._by_type = _read()
            self._version = version
        return self._by_type


def routable(number: int) -> tuple[str, RoutableSubscription] | None:
    """One subscription and its event type, as the router would see it now; None if it gets no new deliveries."""
    rows = Subscription.objects.routable().filter(id=number)
    row = rows.values_list("event_type", "id", "max_retry_limit", "base_delay").first()
    return None if row is None else (row[0], RoutableSubscription(*row[1:]))


def _read() -> dict[str, list[RoutableSubscription]]:
    by_type: dict[str, list[RoutableSubscription]] = defaultdict(list)
    rows = Subscription.objects.routable().order_by("id")
    for id, event_type, limit, delay in rows.values_list("id", "event_type", "max_retry_limit", "base_delay"):
        by_type[event_type].append(RoutableSubscription(id, limit, delay))
    return dict(by_type)
