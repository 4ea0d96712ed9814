"""How many events a key may send: so many a second on average, and ten seconds' worth at once.

The count is kept in the key's row as the moment until which its allowance is used up: sending n events moves it ahead
by n times the time that one takes, and it may not lie further ahead than the ten seconds. A key that rests costs
nothing; its moment simply lies in the past. Each process takes a tenth of a second's worth at a time, so a busy key
costs a few statements a second however many events come. Several processes together may let pass, beyond the limit,
what each has taken and not used: a tenth of a second's worth each, once.
"""

from __future__ import annotations

import math
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
SECOND = 1_000_000
CHUNKS_PER_SECOND = 10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class TokenBucket:
    """What this process has taken of a key's allowance, and until when it knows that there is no more."""

    left: int = 0
    empty_until: float = 0.0


_purses: dict[int, TokenBucket] = {}
_lock = threading.Lock()


def consume(caller: Caller, events: int) -> None:
    """Count these events; Problem 429 if they are too many now."""
    key = caller.key
    rate = key.events_per_second or hub().api_events_per_second
    with _lock:
        purse = _purses.setdefault(key.id, TokenBucket())
        if purse.left >= events:
            purse.left -= events
            return
        wanted = events - purse.left
        pause = purse.empty_until - time.monotonic()
    if pause > 0:
        raise _too_many(rate, pause)
    chunk = max(wanted, _chunk(rate))
    taken = next((count for count in (chunk, wanted) if _take(caller, count, rate)), None)
    if taken is None:
        pause = _pause(caller, wanted, rate)
        with _lock:
            # Only for as long as not even one more would pass: a smaller batch may come after this one.
            purse.empty_until = time.monotonic() + _pause(caller, 1, rate)
        raise _too_many(rate, pause)
    with _lock:
        # Others may have used what was left meanwhile; then this goes below zero and is made up by the next.
        purse.left += taken - events


def _take(caller: Caller, events: int, rate: int) -> bool:
    now = _microseconds(caller.now)
    spent = Greatest(F("spent_until"), Value(now))
    rows = ApiKey.objects.filter(pk=caller.key.pk, spent_until__lte=now + _room(events, rate))
    return bool(one_statement(lambda: rows.update(spent_until=spent + _cost(events, rate))))


def _pause(caller: Caller, events: int, rate: int) -> float:
    """Seconds until so many would pass."""
    spent = ApiKey.objects.values_list("spent_until", flat=True).get(pk=caller.key.pk)
    return max(0.0, (spent - _room(events, rate) - _microseconds(caller.now)) / SECOND)


def _room(events: int, rate: int) -> int:
    """How far ahead the moment may lie for so many to pass.

    A batch larger than the whole allowance passes when no more of it is used than its own first event has taken, and
    is paid for afterwards: otherwise it would never pass.
    """
    return max(_cost(_chunk(rate), rate), BURST_SECONDS * SECOND - _cost(events, rate))


def _chunk(rate: int) -> int:
    return max(1, rate // CHUNKS_PER_SECOND)


def _cost(events: int, rate: int) -> int:
    return events * SECOND // rate


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _too_many(rate: int, pause: float) -> Problem:
    seconds = max(1, math.ceil(pause))
    return Problem(
        429,
        f"This key may send {rate} events a second, and {BURST_SECONDS * rate} at once; "
        f"nothing of this request was stored. Try again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )
