"""Runs whose deadline has passed. The decision is stored as a fact before anything is published."""

from __future__ import annotations

from datetime import datetime

from events.models import Event
from webhookhub.db import clock

from . import versions
from .matching import plausible
from .models import Instance, WorkflowInbox
from .progress import advance
from .registry import Registry
from .state import OPEN


class Monitor:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def expire(self, batch_size: int) -> int:
        """Process one batch of each open status; returns how many rows changed."""
        horizon = _horizon()
        ids = [
            id
            for status in OPEN
            for id in Instance.objects.due(status, horizon).values_list("id", flat=True)[:batch_size]
        ]
        if not ids:
            return 0
        self._registry = versions.up_to_date(self._registry)
        return advance(ids, self._registry, horizon=horizon)


def _horizon() -> datetime:
    """The time up to which all events are tracked: no run times out while its event waits in the inbox."""
    now = clock.now()
    first = WorkflowInbox.objects.order_by("event_id").values_list("event_id", flat=True).first()
    if first is None:
        return now
    created_at = Event.objects.filter(id=first).values_list("created_at", flat=True).first()
    return min(now, plausible(created_at, now))
