"""Patterns of event types: `order.*` for all types that begin with `order.`, and `*` for all. Pure.

An event is matched by looking up its keys: its type, and the patterns of its type. So the cost depends on the dots in
the type, not on the number of subscriptions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

ANY = "*"
SUFFIX = ".*"
LENGTH = 100
# An event type, or a pattern.
PATTERN = r"(?:\*|[A-Za-z0-9_.-]{1,98}\.\*|[A-Za-z0-9_.-]{1,100})"
_REPEATED = re.compile(r"(?:\.\*){2,}\Z")


def normalise(text: str) -> str:
    """The shortest form: `order.*.*` matches what `order.*` matches, and `*.*` is `*`."""
    text = text.strip()
    if text and not text.replace(SUFFIX, "").strip(ANY):
        return ANY
    return _REPEATED.sub(SUFFIX, text)


def is_pattern(event_type: str) -> bool:
    return event_type.endswith(ANY)


@lru_cache(maxsize=10_000)
def keys(event_type: str) -> Sequence[str]:
    """The event type and all patterns that match it."""
    prefixes = [event_type[: position + 1] for position, sign in enumerate(event_type) if sign == "."]
    return event_type, ANY, *(prefix + ANY for prefix in prefixes if prefix != event_type)


def conditions(event_type: str) -> dict[str, str]:
    """Of a query for events: those that this type or pattern matches."""
    if event_type == ANY:
        return {}
    if not is_pattern(event_type):
        return {"event_type": event_type}
    prefix = event_type[:-1]
    # All texts that begin with the prefix, because the slash follows the dot. LIKE would ignore case on SQLite.
    return {"event_type__gt": prefix, "event_type__lt": f"{prefix[:-1]}/"}
