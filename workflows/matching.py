"""Which run an event belongs to: the one with the event's correlation key, whatever version that run has."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from events.models import Event
from webhookhub.logs import Log, log

from .definition import CORRELATION_ID, Definition
from .facts import MAX_REPEATS, Observation
from .models import Instance
from .registry import Registry
from .state import FAILURE, UNDO_FAILED

KEY_LENGTH = 200
# Times outside of this range are not plausible; only SQL can store them.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)
# Earlier events that are read for new runs; beyond it, only the first of each type.
MAX_HISTORY = 1000

# Name of the workflow and correlation key.
Key = tuple[str, str]


class Run(NamedTuple):
    """A stored run. `is_new`: its facts were never folded, so its creator may have crashed."""

    id: int
    version: int
    is_new: bool


class Match(NamedTuple):
    key: Key
    event_id: int
    event_type: str
    at: datetime
    document: Document

    def observations(self, run_id: int, definition: Definition) -> Iterator[Observation]:
        """What the run's own version reads from the event; nothing if it does not know the type."""
        for step, role, reason, aggregate_id in reports(definition, self.event_type, self.document):
            yield Observation(run_id, self.event_id, step, role, self.at, reason, aggregate_id)


class Document:
    """An event's payload, parsed on first use."""

    def __init__(self, correlation_id: str, payload: str) -> None:
        self._correlation_id = correlation_id
        self._payload = payload
        self._value: Any = None
        self._is_read = False

    def key(self, path: str | None) -> str | None:
        """An identifier at this path; None if there is no usable one."""
        value = self._correlation_id if path == CORRELATION_ID else self._find(path)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not 1 <= len(value) <= KEY_LENGTH:
            return None
        return value if value.isprintable() and value == value.strip() else None

    def text(self, path: str, limit: int) -> str:
        value = self._find(path)
        if value is None or isinstance(value, dict | list):
            return ""
        return printable(str(value), limit)

    def _find(self, path: str | None) -> Any:
        if path is None:
            return None
        if not self._is_read:
            self._value, self._is_read = _parse(self._payload), True
        value = self._value
        for name in path.split(".")[1:]:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value


def reports(definition: Definition, event_type: str, document: Document) -> Iterator[tuple[str, str, str, str | None]]:
    """(step, role, reason, aggregate id) of what a definition reads from an event."""
    for step, role in definition.roles.get(event_type, ()):
        reason = document.text(definition.error, 500) if role in (FAILURE, UNDO_FAILED) else ""
        yield step, role, reason, document.key(definition.aggregate)


def _parse(payload: str) -> Any:
    """None if it is not JSON: SQL may store any text."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def printable(text: str, limit: int) -> str:
    """Without control characters: the text is shown on pages and terminals."""
    return "".join(sign if sign.isprintable() else " " for sign in text[:limit]).strip()


def plausible(at: datetime | None, now: datetime) -> datetime:
    """The event's own time, or `now` if that is missing or impossible.

    The fact keeps the result, so that the same facts always fold to the same state.
    """
    return at if at is not None and EARLIEST <= at <= now + AHEAD else now


def match(registry: Registry, event_ids: Sequence[int], now: datetime) -> list[Match]:
    """One match for each workflow that listens to an event and finds a key in it."""
    matches = []
    for event in Event.objects.filter(id__in=event_ids):
        document = Document(event.correlation_id, event.payload)
        for name in registry.listeners.get(event.event_type, ()):
            key = document.key(registry.shown[name].correlation)
            if key is not None:
                at = plausible(event.created_at, now)
                matches.append(Match((name, key), event.id, event.event_type, at, document))
            elif creates(registry, name, event.event_type):
                log(Log.WORKFLOW_EVENT_INVALID, event_uid=str(event.uid), saga_type=name)
    return matches


def creates(registry: Registry, name: str, event_type: str) -> bool:
    """Whether an event of this type may create a run: the version in force knows it."""
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
    """Ids of events of these new runs from before the hub listened to their types.

    Only events older than the batch in hand: the others arrive by the inbox. Only workflows that correlate by
    correlation_id: there is no index on payloads.
    """
    latest = registry.latest
    keys = {key for key in keys if latest[key[0]].correlation == CORRELATION_ID}
    if not keys:
        return []
    types = {event_type for name, _ in keys for event_type in latest[name].roles}
    past = Event.objects.filter(correlation_id__in={key for _, key in keys}, event_type__in=types, id__lt=before)
    ids = list(past.order_by("id").values_list("id", flat=True)[: MAX_HISTORY + 1])
    if len(ids) <= MAX_HISTORY:
        return ids
    # One key with a very long history must not push out the others.
    place = Window(RowNumber(), partition_by=[F("correlation_id"), F("event_type")], order_by=F("id").asc())
    first = past.annotate(place=place).filter(place__lte=MAX_REPEATS)
    return sorted(first.values_list("id", flat=True))
