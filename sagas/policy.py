"""When to retry and when to stop: pure decisions, without a database."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple

from webhookhub.conf import hub

from .transitions import COMPLETED, DEAD_LETTERED, PENDING_RETRY

MICROSECOND = timedelta(microseconds=1)
# Delays are spread over ±10 %, in steps of a millionth.
SPREAD_UNIT = 1_000_000
SPREAD = SPREAD_UNIT // 10


class RetryPolicy(NamedTuple):
    """Copied to a saga when it is created; a setting changed later applies to new sagas only."""

    max_retry_limit: int
    base_delay: timedelta
    # Seconds after each failed attempt, instead of a base delay that doubles.
    retry_delays: tuple[int, ...] | None = None

    @classmethod
    def with_overrides(
        cls, max_retry_limit: int | None, base_delay: timedelta | None, retry_delays: tuple[int, ...] | None
    ) -> RetryPolicy:
        """A subscription's values, with the hub's defaults for None. A list of delays also sets the limit."""
        if retry_delays is not None:
            return cls(len(retry_delays) + 1, timedelta(seconds=retry_delays[0]), retry_delays)
        return cls(
            hub().max_retry_limit if max_retry_limit is None else max_retry_limit,
            hub().base_delay if base_delay is None else base_delay,
        )


class Bounds(NamedTuple):
    max_delay: timedelta
    retry_after_cap: timedelta


class Result(NamedTuple):
    """The result of an attempt. `error_code` is None when it succeeded."""

    error_code: str | None
    attempt_at: datetime
    finished_at: datetime
    retry_after: datetime | None = None


class Decision(NamedTuple):
    """The saga's next status; `next_attempt_at` is set only for PendingRetry."""

    status: str
    next_attempt_at: datetime | None = None


def decide(saga_id: int, attempt_count: int, policy: RetryPolicy, result: Result, bounds: Bounds) -> Decision:
    """What follows from the result of one more attempt for a saga with `attempt_count` attempts before it.

    The status depends only on the saga and the result; `bounds` only limit the delay.
    """
    if result.error_code is None:
        return Decision(COMPLETED)
    attempts = attempt_count + 1
    if attempts >= policy.max_retry_limit:
        return Decision(DEAD_LETTERED)
    return Decision(PENDING_RETRY, next_attempt_at(saga_id, attempts, policy, result, bounds))


def next_attempt_at(saga_id: int, attempts: int, policy: RetryPolicy, result: Result, bounds: Bounds) -> datetime:
    """finished_at + the delay, spread; or later if the endpoint sent Retry-After.

    Always later than the attempt before, even if the database's clock was set back in between.
    """
    at = result.finished_at + spread(delay(attempts, policy, bounds.max_delay), saga_id, attempts)
    if result.retry_after is not None:
        at = max(at, min(result.retry_after, result.finished_at + bounds.retry_after_cap))
    return max(at, result.attempt_at + MICROSECOND)


def delay(attempts: int, policy: RetryPolicy, max_delay: timedelta) -> timedelta:
    """The delay after `attempts` failed attempts: from the list, or min(base_delay × 2^(attempts − 1), max_delay)."""
    if policy.retry_delays is not None:
        return timedelta(seconds=policy.retry_delays[min(attempts, len(policy.retry_delays)) - 1])
    return backoff(attempts, policy.base_delay, max_delay)


def backoff(attempts: int, base_delay: timedelta, max_delay: timedelta) -> timedelta:
    # In integer microseconds: a timedelta times 2^(attempts − 1) overflows before min() is applied.
    doubled = (base_delay // MICROSECOND) << min(attempts - 1, 70)
    return min(doubled, max_delay // MICROSECOND) * MICROSECOND


def spread(delay: timedelta, saga_id: int, attempts: int) -> timedelta:
    """The delay changed by up to ±10 %, so that deliveries that failed together do not return together.

    The change is a hash of the saga and the attempt: repeating the decision gives the same time, in every process.
    """
    digest = blake2b(f"{saga_id}:{attempts}".encode(), digest_size=8).digest()
    # From −SPREAD to +SPREAD, in integers: floating point would lose microseconds of long delays.
    share = int.from_bytes(digest, "big") % (2 * SPREAD + 1) - SPREAD
    return delay + (delay // MICROSECOND) * share // SPREAD_UNIT * MICROSECOND
