"""Which of the newest events a label filter accepts, before it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from subscriptions import patterns
from subscriptions.filters import LabelFilter

from . import labels
from .models import Event

MAX_EVENTS = 1000
SHOWN = 20


class Accepted(NamedTuple):
    id: int
    uid: UUID
    created_at: datetime
    labels: Mapping[str, str]


class Preview(NamedTuple):
    """`events` are the newest SHOWN of the accepted ones."""

    examined: int
    accepted: int
    events: list[Accepted]


def preview(event_type: str, label_filter: LabelFilter | None, *, customer: str | None = None) -> Preview:
    """Of the newest MAX_EVENTS events of this type or pattern, and of this customer if one is given."""
    rows = Event.objects.filter(**patterns.conditions(event_type)).order_by("-created_at", "-id")
    if customer is not None:
        rows = rows.filter(customer_key=customer)
    examined = [
        Accepted(pk, uid, created_at, labels.decode(stored))
        for pk, uid, created_at, stored in rows.values_list("id", "uid", "created_at", "labels")[:MAX_EVENTS]
    ]
    accepted = [event for event in examined if label_filter is None or label_filter.accepts(event.labels)]
    return Preview(len(examined), len(accepted), accepted[:SHOWN])
