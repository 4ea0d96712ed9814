"""The router's view of who wants what, read once and used for a short while."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from webhookhub.conf import hub

from .models import Subscription


@dataclass(frozen=True, slots=True)
class RoutableSubscription:
    id: int
    max_retry_limit: int | None
    base_delay: timedelta | None


class SubscriptionCache:
    """Reads all routable subscriptions at once; a change is seen within the setting `subscription_cache`."""

    def __init__(self) -> None:
        self._by_type: dict[str, list[RoutableSubscription]] = {}
        self._read_at = float("-inf")

    def by_event_type(self) -> dict[str, list[RoutableSubscription]]:
        if time.monotonic() - self._read_at >= hub().subscription_cache.total_seconds():
            read_at = time.monotonic()
            self._by_type = _read()
            self._read_at = read_at
        return self._by_type


def _read() -> dict[str, list[RoutableSubscription]]:
    by_type: dict[str, list[RoutableSubscription]] = defaultdict(list)
    rows = Subscription.objects.routable().order_by("id")
    for id, event_type, limit, delay in rows.values_list("id", "event_type", "max_retry_limit", "base_delay"):
        by_type[event_type].append(RoutableSubscription(id, limit, delay))
    return dict(by_type)
