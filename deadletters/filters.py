"""Filters for dead letters, as keyset pages in the order of failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from events import lookup as events
from events.models import Event
from subscriptions.models import Subscription
from webhookhub.db import keyset
from webhookhub.search_terms import parse_id

from .models import DeadLetter, Requeue

ERROR_CODE = re.compile(r"\A[a-z0-9_]{1,100}\Z")
CUSTOMER = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,99}\Z")
EVENT_TYPE = re.compile(r"\A[A-Za-z0-9_.-]{1,100}\Z")
MAX_RESULTS = 1000
COLUMNS = [field.column for field in DeadLetter._meta.concrete_fields if field.name != "payload_snapshot"]
# Condition → its column and index; the most selective first.
INDEXES = {
    "saga_id": ("saga_id", "idx_dead_saga"),
    "event_id": ("event_id", "idx_dead_event"),
    "subscription_id": ("subscription_id", "idx_dead_subscription"),
    "owner": ("customer_key", "idx_dead_customer"),
    "customer": ("customer_key", "idx_dead_customer"),
    "error_code": ("final_error_code", "idx_dead_error"),
}


class Position(NamedTuple):
    """The sort key of a dead letter."""

    failed_at: datetime
    id: int

    @classmethod
    def of(cls, letter: DeadLetter) -> Position:
        return cls(letter.failed_at, letter.id)

    def as_json(self) -> list[Any]:
        return [self.failed_at.isoformat(), self.id]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Position:
        return cls(datetime.fromisoformat(values[0]), values[1])


class SearchResult(NamedTuple):
    """The dead letters that a search term names; `more`: there may be older ones."""

    ids: list[int]
    more: bool


@dataclass(frozen=True)
class DeadLetterFilter:
    """Dead letters for which every condition holds that is not None.

    `source` is the event's producer, `customer` its customer, `owner` the customer that owns the subscription; `search`
    is an id of the dead letter, its delivery or its event. The fields are also the names of the conditions in the audit
    log.
    """

    error_code: str | None = None
    subscription_id: int | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    source: str | None = None
    event_id: int | None = None
    saga_id: int | None = None
    search: str | None = None
    requeued: bool | None = None
    customer: str | None = None
    owner: str | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether the pages hold matching rows only, so that matching() is not needed."""
        indexed = [name for name in ("search", *INDEXES) if getattr(self, name) is not None]
        return len(indexed) <= 1 and not self._needs_events and self.requeued is None and self.owner is None

    @property
    def search_is_cut(self) -> bool:
        """Whether the search term names more dead letters than are examined."""
        return self._result is not None and self._result.more

    def newest_first(self, after: Position | None, limit: int) -> list[DeadLetter]:
        """The next rows; they match the indexed conditions."""
        return self._rows(after=after, limit=limit, descending=True)

    def oldest_first(self, after: Position | None, limit: int, max_id: int) -> list[DeadLetter]:
        """The next rows up to the id `max_id`; they match the indexed conditions."""
        return self._rows(after=after, limit=limit, descending=False, id__lte=max_id)

    def matching(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """The rows of a page that match all conditions."""
        for name, (column, _index) in INDEXES.items():
            if (value := getattr(self, name)) is not None:
                letters = [letter for letter in letters if getattr(letter, column) == value]
        if self._result is not None:
            results = set(self._result.ids)
            letters = [letter for letter in letters if letter.id in results]
        if self.requeued is not None:
            requests = Requeue.objects.filter(dead_letter__in=[letter.id for letter in letters])
            requeued = set(requests.values_list("dead_letter_id", flat=True))
            letters = [letter for letter in letters if (letter.id in requeued) == self.requeued]
        if self.owner is not None and letters:
            ids = {letter.subscription_id for letter in letters}
            owned = set(Subscription.objects.filter(id__in=ids, customer_key=self.owner).values_list("id", flat=True))
            letters = [letter for letter in letters if letter.subscription_id in owned]
        if self._needs_events and letters:
            ids = {letter.event_id for letter in letters}
            ids = Event.objects.among(ids, event_type=self.event_type, source=self.source)
            letters = [letter for letter in letters if letter.event_id in ids]
        return list(letters)

    def as_json(self) -> dict[str, Any]:
        conditions = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in conditions.items()}

    @cached_property
    def _result(self) -> SearchResult | None:
        return None if self.search is None else find(self.search)

    @property
    def _needs_events(self) -> bool:
        return self.event_type is not None or self.source is not None

    def _rows(self, *, after: Position | None, limit: int, descending: bool, **where: Any) -> list[DeadLetter]:
        index, leading = self._index()
        return keyset.rows(
            DeadLetter,
            COLUMNS,
            index=index,
            where={**leading, "failed_at__gte": self.since, "failed_at__lte": self.until, **where},
            order=Position._fields,
            after=after,
            descending=descending,
            limit=limit,
        )

    def _index(self) -> tuple[str | None, dict[str, Any]]:
        """The index to read along, and the condition on its first column; the primary key for a search."""
        if self._result is not None:
            return None, {"id__in": self._result.ids}
        for name, (column, index) in INDEXES.items():
            if (value := getattr(self, name)) is not None:
                return index, {column: value}
        return "idx_dead_failed", {}


def find(term: str) -> SearchResult:
    """The dead letters with this id, of the delivery with this id, or of the events that the term names."""
    event_ids = sorted(events.find(term))
    found = []
    if event_ids:
        where = {"event_id__in": event_ids}
        found = keyset.ids(DeadLetter, index="idx_dead_event", where=where, limit=MAX_RESULTS + 1)
    more = len(found) > MAX_RESULTS or len(event_ids) >= events.MAX_RESULTS
    ids = set(found[:MAX_RESULTS])
    pk = parse_id(term)
    if pk is not None:
        ids |= {pk, *DeadLetter.objects.filter(saga_id=pk).values_list("id", flat=True)}
    return SearchResult(sorted(ids), more)
