"""Labels: short texts about an event that subscriptions can filter by, without looking into the payload."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from subscriptions.filters import LABEL_NAME, LABEL_NAME_RULE, VALUE_LENGTH

from .errors import InvalidEvent
from .pointers import Missing, Pointer

FIELD = "labels"
MAX_LABELS = 16
NONE: Mapping[str, str] = {}


def check(labels: Any) -> Mapping[str, str]:
    """The labels that a producer gives. Raises InvalidEvent."""
    if not isinstance(labels, Mapping):
        raise InvalidEvent(FIELD, 'must be an object of names and texts, such as {"region": "eu"}')
    check_count(len(labels))
    for name, value in labels.items():
        if not isinstance(name, str) or not LABEL_NAME.match(name):
            shown = str(name)[:100].encode("ascii", "backslashreplace").decode()
            raise InvalidEvent(FIELD, f"has the name {shown!r}: {LABEL_NAME_RULE}")
        if not is_value(value):
            raise InvalidEvent(
                f"{FIELD}.{name}", f"must be a text of at most {VALUE_LENGTH} characters, without control characters"
            )
    return labels


def check_count(count: int) -> None:
    if count > MAX_LABELS:
        raise InvalidEvent(FIELD, f"has {count} labels, with those of the event type; at most {MAX_LABELS} are allowed")


def is_value(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= VALUE_LENGTH and value.isprintable()


def from_payload(pointers: Iterable[tuple[str, Pointer]], payload: Any) -> dict[str, str]:
    """The labels at these places. A place that is missing, or holds no value of a label, gives none."""
    labels = {}
    for name, pointer in pointers:
        try:
            value = pointer.find(payload)
        except Missing:
            continue
        if isinstance(value, bool | int | float):
            value = json.dumps(value)
        if is_value(value):
            labels[name] = value
    return labels


def encode(labels: Mapping[str, str]) -> str | None:
    """The text that is stored."""
    return json.dumps(labels, ensure_ascii=False, sort_keys=True, separators=(",", ":")) if labels else None


def decode(text: str | None) -> Mapping[str, str]:
    """The labels of a stored event. What is no label is left out: another program may insert events by SQL."""
    if not text:
        return NONE
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError):
        return NONE
    if not isinstance(labels, dict):
        return NONE
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def is_repeat(given: Mapping[str, str], stored: Mapping[str, str], declared: Collection[str]) -> bool:
    """Whether an event with these `given` labels may be the stored one.

    Labels whose names are `declared` come from the payload, by pointers that may have changed since.
    """
    if any(stored.get(name) != value for name, value in given.items()):
        return False
    return all(name in given or name in declared for name in stored)
