"""Which run an event belongs to: the one with the event's correlation key, whatever version that run has."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from events.models import Event
from webhookhub.logs import Log, log

from .definition import CORRELATION_ID, Definition
from .facts import MAX_REPEATS, Row, fact_row
from .models import Instance
from .registry import Registry
from .state import EVENT, FAILURE, UNDO_FAILED, printable

KEY_LENGTH = 200
# Times outside of this range are not plausible; only SQL can store them.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)

# Name of the workflow and correlation key.
Key = tuple[str, str]


class Run(NamedTuple):
    """A stored run. `is_new`: its facts were never folded, so its creator may have crashed."""

    id: int
    version: int
    is_new: bool


class Match(NamedTuple):
    """An event and the key of the run that it belongs to."""

    key: Key
    event: ParsedEvent
    at: datetime

    def facts(self, run_id: int, definition: Definition, now: datetime) -> Iterator[Row]:
        """What the run's own version reads from the event; nothing if it does not listen to the type."""
        for step, role, reason, aggregate_id in self.event.reports(definition):
            columns = {"event_id": self.event.id, "detail": reason, "aggregate_id": aggregate_id, "recorded_at": now}
            yield fact_row(run_id, step, role, EVENT, self.at, **columns)


class ParsedEvent:
    """What definitions read from an event. Its payload is parsed on first use."""

    def __init__(self, event: Event) -> None:
        self.id, self.event_type = event.id, event.event_type
        self._correlation_id, self._text = event.correlation_id, event.payload

    def reports(self, definition: Definition) -> Iterator[tuple[str, str, str, str | None]]:
        """(step, role, reason, aggregate id) of each fact."""
        for step, role in definition.roles.get(self.event_type, ()):
            reason = self._reason(definition.error) if role in (FAILURE, UNDO_FAILED) else ""
            yield step, role, reason, self.key(definition.aggregate)

    def key(self, path: str | None) -> str | None:
        """The identifier at this path; None if there is no usable one."""
        value = self._correlation_id if path == CORRELATION_ID else self._find(path)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not 1 <= len(value) <= KEY_LENGTH:
            return None
        return value if value.isprintable() and value == value.strip() else None

    def _reason(self, path: str) -> str:
        value = self._find(path)
        return "" if value is None or isinstance(value, dict | list) else printable(str(value))

    def _find(self, path: str | None) -> Any:
        value = self._payload if path else None
        for name in (path or "").split(".")[1:]:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    @cached_property
    def _payload(self) -> Any:
        """None if it is not JSON: SQL may store any text."""
        try:
            return json.loads(self._text)
        except (ValueError, RecursionError):
            return None


def plausible(at: datetime | None, now: datetime) -> datetime:
    """The event's own time, or `now` if that is missing or impossible.

    The fact keeps the result, so that the same facts always fold to the same state.
    """
    return at if at is not None and EARLIEST <= at <= now + AHEAD else now


def match(registry: Registry, event_ids: Sequence[int], now: datetime) -> list[Match]:
    """One match for each workflow that listens to an event and finds a key in it."""
    matches = []
    for row in Event.objects.filter(id__in=event_ids):
        event = ParsedEvent(row)
        for name in registry.listeners.get(row.event_type, ()):
            key = event.key(registry.shown[name].correlation)
            if key is not None:
                matches.append(Match((name, key), event, plausible(row.created_at, now)))
            elif creates(registry, name, row.event_type):
                log(
                    Log.WORKFLOW_EVENT_INVALID,
                    correlation_id=row.correlation_id,
                    event_uid=str(row.uid),
                    event_type=row.event_type,
                    saga_type=name,
                )
    return matches


def creates(registry: Registry, name: str, event_type: str) -> bool:
    """Whether an event of this type may create a run: the version in force listens to it."""
    return name in registry.latest and event_type in registry.latest[name].roles


def existing(keys: Iterable[Key]) -> dict[Key, Run]:
    by_name: dict[str, list[str]] = defaultdict(list)
    for name, key in keys:
        by_name[name].append(key)
    runs: dict[Key, Run] = {}
    for name, wanted in by_name.items():
        rows = Instance.objects.filter(saga_type=name, correlation_key__in=wanted)
        for key, id, version, writes in rows.values_list("correlation_key", "id", "definition_version", "version"):
            runs[name, key] = Run(id, version, writes == 0)
    return runs


def history(registry: Registry, keys: Collection[Key], before: int) -> list[int]:
    """Ids of events of these new runs from before the hub listened to their types: the first MAX_REPEATS of each type.

    Only events older than the current batch: the others arrive by the inbox. Only workflows that correlate by
    correlation_id: there is no index on payloads.
    """
    latest = registry.latest
    keys = {key for key in keys if latest[key[0]].correlation == CORRELATION_ID}
    if not keys:
        return []
    types = {event_type for name, _ in keys for event_type in latest[name].roles}
    past = Event.objects.filter(correlation_id__in={key for _, key in keys}, event_type__in=types, id__lt=before)
    place = Window(RowNumber(), partition_by=[F("correlation_id"), F("event_type")], order_by=F("id").asc())
    first = past.annotate(place=place).filter(place__lte=MAX_REPEATS)
    return sorted(first.values_list("id", flat=True))
