"""When to retry and when to stop, as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sagas.policy import Bounds, Decision, Result, RetryPolicy, backoff, decide, next_attempt_at

NOW = datetime(2024, 2, 29, 23, 59, 30, tzinfo=UTC)
BOUNDS = Bounds(max_delay=timedelta(hours=6), retry_after_cap=timedelta(hours=1))
POLICY = RetryPolicy(max_retry_limit=10, base_delay=timedelta(seconds=30))
DUE = NOW - timedelta(seconds=1)


@pytest.mark.requirement("R1-4.1b", "R1-6.2a", "R1-6.2c")
@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [(1, 30), (2, 60), (3, 120), (10, 15360), (11, 21600), (1000, 21600)],
)
def test_the_delay_doubles_with_each_attempt_up_to_the_cap(attempts: int, seconds: int):
    assert backoff(attempts, timedelta(seconds=30), timedelta(hours=6)) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("attempts", "base", "cap", "expected"),
    [
        (1, timedelta(hours=7), timedelta(hours=6), timedelta(hours=6)),
        (1, timedelta(hours=6), timedelta(hours=6), timedelta(hours=6)),
        (64, timedelta(microseconds=1), timedelta(days=30), timedelta(days=30)),
        (42, timedelta(microseconds=1), timedelta(days=30), timedelta(microseconds=2**41)),
        (65, timedelta.max, timedelta.max, timedelta.max),
    ],
)
def test_the_delay_never_overflows_and_never_exceeds_the_cap(
    attempts: int, base: timedelta, cap: timedelta, expected: timedelta
):
    assert backoff(attempts, base, cap) == expected


@pytest.mark.parametrize(
    ("asked_after", "expected_after"),
    [
        (None, 60),
        (timedelta(seconds=-100), 60),
        (timedelta(seconds=59), 60),
        (timedelta(seconds=61), 61),
        (timedelta(seconds=3600), 3600),
        (timedelta(seconds=3601), 3600),
        (timedelta(days=3000), 3600),
    ],
)
def test_retry_after_lengthens_the_delay_up_to_its_cap_and_never_shortens_it(
    asked_after: timedelta | None, expected_after: int
):
    result = Result("http_503", DUE, NOW, None if asked_after is None else NOW + asked_after)

    assert next_attempt_at(2, POLICY, result, BOUNDS) == NOW + timedelta(seconds=expected_after)


def test_retry_after_does_not_shorten_a_delay_that_is_longer_than_its_cap():
    result = Result("http_503", DUE, NOW, NOW + timedelta(hours=5))

    assert next_attempt_at(9, POLICY, result, BOUNDS) == NOW + timedelta(seconds=7680)


@pytest.mark.parametrize("set_back", [timedelta(0), timedelta(seconds=1), timedelta(days=400)])
def test_the_next_attempt_is_later_than_the_one_before_even_if_the_clock_was_set_back(set_back: timedelta):
    policy = RetryPolicy(max_retry_limit=10, base_delay=timedelta(0))
    result = Result("timeout", NOW, NOW - set_back)

    assert next_attempt_at(1, policy, result, BOUNDS) == NOW + timedelta(microseconds=1)


@pytest.mark.requirement("R1-3d", "R1-3f", "R1-4.1d", "R1-6.1a", "R1-7.3c")
@pytest.mark.parametrize(
    ("limit", "attempts_before", "dead_lettered"),
    [(1, 0, True), (2, 0, False), (2, 1, True), (10, 8, False), (10, 9, True), (10, 10, True)],
)
def test_the_limit_counts_attempts_including_the_first(limit: int, attempts_before: int, dead_lettered: bool):
    policy = RetryPolicy(limit, timedelta(seconds=30))

    decision = decide(attempts_before, policy, Result("timeout", DUE, NOW), BOUNDS)

    if dead_lettered:
        assert decision == Decision("DeadLettered")
    else:
        assert decision == Decision("PendingRetry", NOW + timedelta(seconds=30 * 2**attempts_before))


@pytest.mark.requirement("R1-6.1b")
@pytest.mark.parametrize("attempts_before", [0, 9])
def test_a_success_completes_after_any_number_of_attempts(attempts_before: int):
    assert decide(attempts_before, POLICY, Result(None, DUE, NOW), BOUNDS) == Decision("Completed")


def test_bounds_change_the_delay_and_never_the_status():
    other = Bounds(timedelta(milliseconds=1), timedelta(0))

    for attempts_before in range(12):
        one = decide(attempts_before, POLICY, Result("timeout", DUE, NOW), BOUNDS)
        two = decide(attempts_before, POLICY, Result("timeout", DUE, NOW), other)
        assert one.status == two.status


@pytest.mark.requirement("R1-6.3b")
@pytest.mark.parametrize(
    ("limit", "delay", "expected"),
    [
        (None, None, RetryPolicy(7, timedelta(seconds=11))),
        (2, None, RetryPolicy(2, timedelta(seconds=11))),
        (None, timedelta(seconds=3), RetryPolicy(7, timedelta(seconds=3))),
        (2, timedelta(seconds=3), RetryPolicy(2, timedelta(seconds=3))),
    ],
)
def test_a_subscription_overrides_the_hubs_defaults_one_by_one(hub_settings, limit, delay, expected):
    hub_settings(max_retry_limit=7, base_delay=timedelta(seconds=11))

    assert RetryPolicy.with_overrides(limit, delay) == expected
