"""When to retry and when to stop: pure decisions, without a database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from webhookhub.conf import hub

from .transitions import COMPLETED, DEAD_LETTERED, PENDING_RETRY


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Copied to a saga when it is created; a setting changed later applies to new sagas only."""

    max_retry_limit: int
    base_delay: timedelta

    @classmethod
    def with_overrides(cls, max_retry_limit: int | None, base_delay: timedelta | None) -> RetryPolicy:
        """A subscription's values, with the hub's defaults for None."""
        return cls(
            hub().max_retry_limit if max_retry_limit is None else max_retry_limit,
            hub().base_delay if base_delay is None else base_delay,
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    max_delay: timedelta
    retry_after_cap: timedelta


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an attempt. `error_code` is None when it succeeded."""

    error_code: str | None
    attempt_at: datetime
    finished_at: datetime
    retry_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The saga's next status; `next_attempt_at` is set only for PendingRetry."""

    status: str
    next_attempt_at: datetime | None = None


def decide(attempt_count: int, policy: RetryPolicy, result: Result, bounds: Bounds) -> Decision:
    """What follows from the result of one more attempt for a saga with `attempt_count` attempts before it.

    The status depends only on the saga and the result; `bounds` only limit the delay.
    """
    if result.error_code is None:
        return Decision(COMPLETED)
    attempts = attempt_count + 1
    if attempts >= policy.max_retry_limit:
        return Decision(DEAD_LETTERED)
    return Decision(PENDING_RETRY, next_attempt_at(attempts, policy, result, bounds))


def next_attempt_at(attempts: int, policy: RetryPolicy, result: Result, bounds: Bounds) -> datetime:
    """finished_at + min(base_delay × 2^(attempts − 1), max_delay), or later if the endpoint sent Retry-After.

    Always later than the attempt before, even if the database's clock was set back in between.
    """
    at = result.finished_at + backoff(attempts, policy.base_delay, bounds.max_delay)
    if result.retry_after is not None:
        at = max(at, min(result.retry_after, result.finished_at + bounds.retry_after_cap))
    return max(at, result.attempt_at + timedelta(microseconds=1))


def backoff(attempts: int, base_delay: timedelta, max_delay: timedelta) -> timedelta:
    # In integer microseconds: a timedelta times 2^(attempts − 1) overflows before min() is applied.
    microsecond = timedelta(microseconds=1)
    doubled = (base_delay // microsecond) << min(attempts - 1, 70)
    return min(doubled, max_delay // microsecond) * microsecond
