"""When to try again and when to give up: pure decisions, persisted by somebody else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from webhookhub.conf import hub


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What a saga is born with; a setting changed later holds for sagas born after it."""

    max_retry_limit: int
    base_delay: timedelta

    @classmethod
    def with_overrides(cls, max_retry_limit: int | None, base_delay: timedelta | None) -> RetryPolicy:
        """The hub's defaults, but for what a subscription says otherwise."""
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
    """How an attempt ended. `error_code` is None when it succeeded."""

    error_code: str | None
    finished_at: datetime
    retry_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Complete:
    pass


@dataclass(frozen=True, slots=True)
class Retry:
    at: datetime
    error_code: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    error_code: str


def decide(attempt_count: int, policy: RetryPolicy, result: Result, bounds: Bounds) -> Complete | Retry | GiveUp:
    """What the result of one more attempt means for a saga that had `attempt_count` before it.

    Whether to go on depends on the saga and the result alone; `bounds` only shape the delay.
    """
    if result.error_code is None:
        return Complete()
    attempts = attempt_count + 1
    if attempts >= policy.max_retry_limit:
        return GiveUp(result.error_code)
    return Retry(next_attempt_at(attempts, policy, result, bounds), result.error_code)


def next_attempt_at(attempts: int, policy: RetryPolicy, result: Result, bounds: Bounds) -> datetime:
    """finished_at + min(base_delay × 2^(attempts − 1), max_delay), or later if the receiver asked for it."""
    at = result.finished_at + backoff(attempts, policy.base_delay, bounds.max_delay)
    if result.retry_after is not None:
        at = max(at, min(result.retry_after, result.finished_at + bounds.retry_after_cap))
    return at


def backoff(attempts: int, base_delay: timedelta, max_delay: timedelta) -> timedelta:
    # In whole microseconds, because a timedelta times 2^(attempts − 1) overflows long before it is cut off.
    microsecond = timedelta(microseconds=1)
    doubled = (base_delay // microsecond) << min(attempts - 1, 70)
    return min(doubled, max_delay // microsecond) * microsecond
