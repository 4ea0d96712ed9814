"""Filters for events, as keyset pages from the newest to the oldest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from webhookhub.db import keyset

from . import lookup
from .models import Event

COLUMNS = [field.column for field in Event._meta.concrete_fields if field.name != "payload"]
# Condition → its column and index, with the time; the most selective first.
INDEXES = {
    "customer": ("customer_key", "idx_event_customer"),
    "event_type": ("event_type", "idx_event_type"),
}


class Position(NamedTuple):
    """The sort key of an event."""

    created_at: datetime
    id: int


@dataclass(frozen=True)
class EventFilter:
    """Events for which every condition holds that is not None; `since` and `until` compare created_at."""

    external_id: str | None = None
    customer: str | None = None
    event_type: str | None = None
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether newest_first() returns matching rows only, so that matching() is not needed."""
        given = [name for name in ("external_id", "source", *INDEXES) if getattr(self, name) is not None]
        return not given or (len(given) == 1 and given[0] in INDEXES)

    def newest_first(self, after: Position | None, limit: int) -> list[Event]:
        """The next rows; they match the indexed conditions."""
        index, where = self._index()
        return keyset.rows(
            Event,
            COLUMNS,
            index=index,
            where={**where, "created_at__gte": self.since, "created_at__lte": self.until},
            order=Position._fields,
            after=after,
            limit=limit,
        )

    def matching(self, events: Sequence[Event]) -> list[Event]:
        """The rows of a page that match all conditions."""
        wanted = {
            "external_id": self.external_id,
            "customer_key": self.customer,
            "event_type": self.event_type,
            "source": self.source,
        }
        return [
            event
            for event in events
            if all(value is None or getattr(event, column) == value for column, value in wanted.items())
        ]

    def _index(self) -> tuple[str | None, dict[str, Any]]:
        if self.external_id is not None:
            return None, {"id__in": lookup.of_external_id(self.external_id, self.source)}
        for name, (column, index) in INDEXES.items():
            if (value := getattr(self, name)) is not None:
                return index, {column: value}
        return "idx_event_created", {}
