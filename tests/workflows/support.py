"""Helpers that drive runs through the database."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from events.intake import Published, publish
from events.models import Event
from tests.factories import EventFactory
from webhookhub.db import clock
from workflows.definition import Definition
from workflows.models import Fact, Instance, WorkflowInbox, WorkflowTouched
from workflows.replay import replay
from workflows.scenarios import Report, event_type
from workflows.state import EMISSIONS
from workflows.tracked_types import listen
from workflows.tracker import Tracker
from workflows.versions import in_force


def tracked() -> Tracker:
    """As at the start of a process."""
    listen(in_force())
    return Tracker(in_force())


def tell(definition: Definition, report: Report, key: str, **payload: Any) -> Published:
    """Publish what a service would publish."""
    return publish(event_type(definition, report), payload or {"order_id": key}, correlation_id=key)


def told_before(definition: Definition, report: Report, key: str, ago: timedelta) -> int:
    """Insert an older event; returns its id."""
    event = EventFactory(event_type=event_type(definition, report), correlation_id=key, created_at=clock.now() - ago)
    return int(event.pk)  # type: ignore[attr-defined]


def catch_up(batch_size: int = 500) -> None:
    """Track until there is no more work."""
    tracker = Tracker(in_force())
    while tracker.track(batch_size) or tracker.touch(batch_size):
        pass
    assert not WorkflowInbox.objects.exists()
    assert not WorkflowTouched.objects.exists()


def expire() -> int:
    return Tracker(in_force()).expire(500)


def instance(key: str, name: str = "order_submission") -> Instance:
    return Instance.objects.get(saga_type=name, correlation_key=key)


def published(key: str) -> list[tuple[str, str | None]]:
    """(type, step) of the hub's events about a run, in order."""
    events = Event.objects.filter(source="hub", correlation_id=key, event_type__in=EMISSIONS).order_by("id")
    return [(event.event_type, json.loads(event.payload).get("step")) for event in events]


def facts(key: str) -> list[tuple[str, str]]:
    rows = Fact.objects.filter(instance__correlation_key=key).order_by("id")
    return [(fact.step, fact.role) for fact in rows]


def differences() -> list[str]:
    """What a replay of all runs finds; nothing, unless rows or events were changed by SQL."""
    return [str(difference) for batch in replay(in_force(), 500) for difference in batch.differences]
