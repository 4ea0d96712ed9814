"""Limits how many events a key may send: a rate per second, with bursts of ten seconds' worth.

A large event, and one of many elements, counts as several.

The key's row holds the time until which its allowance is used up. Sending n events moves this time ahead by n times the
interval of one event, but to at most ten seconds from now. To save statements, each process takes a tenth of a second's
worth at a time. Several processes together may therefore exceed the limit once, by at most one such chunk each.
"""

from __future__ import annotations

import math
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import F, Value
from django.db.models.functions import Greatest

from webhookhub.conf import hub
from webhookhub.db.retry import one_statement

from .keys import Caller
from .models import ApiKey
from .problems import Problem

BURST_SECONDS = 10
SECOND = 1_000_000  # microseconds
CHUNKS_PER_SECOND = 10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A body counts as at least one event for each so many bytes and elements (commas and brackets), which cost as much.
BYTES_PER_EVENT = 16 * 1024
ELEMENTS_PER_EVENT = 100
# About half a second to parse.
MAX_ELEMENTS = 500_000
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')


@dataclass
class TokenBucket:
    """What this process has taken of a key's allowance and not used, and until when no more is available."""

    left: int = 0
    empty_until: float = 0.0


_buckets: dict[int, TokenBucket] = {}
_lock = threading.Lock()


def weight(body: str) -> int:
    """As how many events a body counts, at least. Raises Problem 413 if it has too many elements."""
    if len(body) <= BYTES_PER_EVENT:
        return 1
    elements = _elements(body)
    if elements > MAX_ELEMENTS:
        # Texts with many commas look alike.
        elements = _elements(STRING.sub("", body))
    if elements > MAX_ELEMENTS:
        why = f"has {elements} commas and brackets outside of texts; send at most {MAX_ELEMENTS}"
        raise Problem(413, f"body {why}.", [("body", why)])
    return max(1, len(body) // BYTES_PER_EVENT, elements // ELEMENTS_PER_EVENT)


def _elements(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")


def consume(caller: Caller, events: int) -> None:
    """Counts the events against the key's limit. Raises Problem 429 if they exceed it."""
    key = caller.key
    rate = key.events_per_second or hub().api_events_per_second
    with _lock:
        bucket = _buckets.setdefault(key.id, TokenBucket())
        if bucket.left >= events:
            bucket.left -= events
            return
        needed = events - bucket.left
        wait = bucket.empty_until - time.monotonic()
    if wait > 0:
        raise _too_many(rate, wait)
    chunk = max(needed, _chunk(rate))
    taken = next((count for count in (chunk, needed) if _take(caller, count, rate)), None)
    if taken is None:
        wait = _wait(caller, needed, rate)
        with _lock:
            # Only until a single event would pass: a smaller batch may follow.
            bucket.empty_until = time.monotonic() + _wait(caller, 1, rate)
        raise _too_many(rate, wait)
    with _lock:
        # Other threads may have used what was left. Then this is negative and the next call makes up for it.
        bucket.left += taken - events


def _take(caller: Caller, events: int, rate: int) -> bool:
    now = _microseconds(caller.now)
    spent = Greatest(F("spent_until"), Value(now))
    rows = ApiKey.objects.filter(pk=caller.key.pk, spent_until__lte=now + _room(events, rate))
    return bool(one_statement(lambda: rows.update(spent_until=spent + _cost(events, rate))))


def _wait(caller: Caller, events: int, rate: int) -> float:
    """Seconds until this many events would pass."""
    spent = ApiKey.objects.values_list("spent_until", flat=True).get(pk=caller.key.pk)
    return max(0.0, (spent - _room(events, rate) - _microseconds(caller.now)) / SECOND)


def _room(events: int, rate: int) -> int:
    """How far ahead of now `spent_until` may be for this many events to pass.

    A batch larger than the whole allowance would never pass. It passes if the allowance is unused, except for the chunk
    that the request itself has taken for its first event.
    """
    return max(_cost(_chunk(rate), rate), BURST_SECONDS * SECOND - _cost(events, rate))


def _chunk(rate: int) -> int:
    return max(1, rate // CHUNKS_PER_SECOND)


def _cost(events: int, rate: int) -> int:
    return events * SECOND // rate


def _microseconds(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)


def _too_many(rate: int, wait: float) -> Problem:
    seconds = max(1, math.ceil(wait))
    return Problem(
        429,
        f"This key may send {rate} events per second and {BURST_SECONDS * rate} at once. "
        f"Nothing was stored; retry in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )
