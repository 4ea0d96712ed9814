"""What ingest knows of the declared event types, from memory: a change has effect within a second."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Mapping
from typing import Any

from webhookhub.conf import hub
from webhookhub.db.compiled import CompiledSelect
from webhookhub.logs import Log, log

from .json_schema import InvalidSchema, Validator
from .models import EventType, EventTypeVersion
from .pointers import Pointer

# A change must have effect within a second.
CACHE_SECONDS = 0.8


class Rules:
    """What the events of a declared type are checked against, and where their labels are."""

    __slots__ = ("_schema", "_validator", "pointers")

    def __init__(self, schema: str, pointers: Mapping[str, Pointer]) -> None:
        self._schema = schema
        self._validator: Validator | None = None
        self.pointers = tuple(pointers.items())

    @property
    def reads_payload(self) -> bool:
        """Whether a payload must be looked at: most types have neither a schema to check nor pointers."""
        return bool(self._schema or self.pointers)

    def errors(self, payload: Any) -> str:
        """What is wrong with the payload; empty if it is valid."""
        if not self._schema:
            return ""
        if self._validator is None:
            try:
                self._validator = Validator(json.loads(self._schema))
            except (InvalidSchema, ValueError) as error:
                return f"cannot be checked, because the stored schema is invalid: {error}"
        return self._validator.errors(payload)

    def take_over(self, earlier: Rules | None) -> None:
        """Keep the compiled schema if it is the same."""
        if earlier is not None and earlier._schema == self._schema:
            self._validator = earlier._validator


class _Cache:
    rules: Mapping[str, Rules] = {}
    version: tuple[int, bool] | None = None
    read_at = float("-inf")


_cache = _Cache()
_versions = CompiledSelect(lambda: EventTypeVersion.objects.values_list("version")[:1])


def find(event_type: str) -> Rules | None:
    """The rules of a declared type; None if it is not declared."""
    if time.monotonic() - _cache.read_at >= CACHE_SECONDS:
        _refresh()
    return _cache.rules.get(event_type)


def similar(event_type: str) -> str | None:
    """The declared type with the most similar name, for a message about a typo."""
    return next(iter(difflib.get_close_matches(event_type, list(_cache.rules), n=1, cutoff=0.8)), None)


def clear() -> None:
    _cache.rules, _cache.version, _cache.read_at = {}, None, float("-inf")


def _refresh() -> None:
    read_at = time.monotonic()
    # The version is read first: a change between the two reads causes another reload.
    version = next((version for (version,) in _versions()), 0)
    current = (version, hub().strict_event_types)
    if current != _cache.version:
        # Without a version, nothing was ever declared.
        _cache.rules = _load() if version else {}
        _cache.version = current
    _cache.read_at = read_at


def _read_pointers(event_type: str, text: str) -> dict[str, Pointer]:
    """None for a text that another program has written by SQL and that is no declaration of labels."""
    try:
        return {label: Pointer.parse(pointer) for label, pointer in (json.loads(text) if text else {}).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        log(Log.EVENT_TYPE_INVALID, event_type=event_type, error=f"label_pointers: {type(error).__name__}")
        return {}


def _load() -> dict[str, Rules]:
    checked = EventType.objects.all() if hub().strict_event_types else EventType.objects.filter(strict=True)
    schemas = dict(checked.values_list("name", "json_schema"))
    loaded = {}
    for name, pointers in EventType.objects.values_list("name", "label_pointers"):
        rules = Rules(schemas.get(name, ""), _read_pointers(name, pointers))
        rules.take_over(_cache.rules.get(name))
        loaded[name] = rules
    return loaded
