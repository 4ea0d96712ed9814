"""Choosing dead letters by what they have in common, a bounded stretch of the table at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Prefetch, Q, QuerySet

from events.models import Event
from sagas.models import Saga

from .models import DeadLetter


class Position(NamedTuple):
    """Where a walk along the dead letters, in the order of their failure, has come to."""

    failed_at: datetime
    id: int


@dataclass(frozen=True)
class Choice:
    """Those for which everything that is not None holds; `source` is the event's producer."""

    error_code: str | None = None
    subscription_id: int | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    source: str | None = None

    @property
    def by_events(self) -> bool:
        return self.event_type is not None or self.source is not None

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds exactly these, so that none has to be looked at in vain."""
        return not self.by_events and (self.error_code is None or self.subscription_id is None)

    def rows(self) -> QuerySet[DeadLetter]:
        """What an index finds; the rest is for `keep`."""
        conditions: dict[str, Any] = {
            "subscription_id": self.subscription_id,
            # With a subscription too, that one's index leads, and each of its rows is looked at.
            "final_error_code": self.error_code if self.subscription_id is None else None,
            "failed_at__gte": self.since,
            "failed_at__lte": self.until,
        }
        rows = DeadLetter.objects.filter(**{name: value for name, value in conditions.items() if value is not None})
        return rows.defer("payload_snapshot").prefetch_related(Prefetch("saga", Saga.objects.only("generation")))

    def keep(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        if self.error_code is not None:
            letters = [letter for letter in letters if letter.final_error_code == self.error_code]
        if not self.by_events or not letters:
            return list(letters)
        # A query of its own: in a join the database may start from the events, and then reads all of them.
        wanted = {"event_type": self.event_type, "source": self.source}
        events = Event.objects.filter(id__in={letter.event_id for letter in letters})
        events = events.filter(**{name: value for name, value in wanted.items() if value is not None})
        ids = set(events.values_list("id", flat=True))
        return [letter for letter in letters if letter.event_id in ids]


def newest_first(choice: Choice, after: Position | None, most: int) -> list[DeadLetter]:
    rows = choice.rows().order_by("-failed_at", "-id")
    if after is not None:
        # Not (failed_at < …) OR (failed_at = … AND id < …): an OR would hide the range from the optimizers.
        rows = rows.filter(failed_at__lte=after.failed_at).exclude(Q(failed_at=after.failed_at) & Q(id__gte=after.id))
    return list(rows[:most])


def oldest_first(choice: Choice, after: Position | None, most: int) -> list[DeadLetter]:
    rows = choice.rows().order_by("failed_at", "id")
    if after is not None:
        rows = rows.filter(failed_at__gte=after.failed_at).exclude(Q(failed_at=after.failed_at) & Q(id__lte=after.id))
    return list(rows[:most])


def position(letter: DeadLetter) -> Position:
    return Position(letter.failed_at, letter.id)
