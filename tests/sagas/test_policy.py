"""When to retry and when to stop, as tables."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas import policy as policies
from sagas.policy import Bounds, Decision, Result, RetryPolicy, backoff, decide, delay, next_attempt_at, spread
from webhookhub.conf import HubSettings

NOW = datetime(2024, 2, 29, 23, 59, 30, tzinfo=UTC)
BOUNDS = Bounds(max_delay=timedelta(hours=6), retry_after_cap=timedelta(hours=1))
POLICY = RetryPolicy(max_retry_limit=10, base_delay=timedelta(seconds=30))
DUE = NOW - timedelta(seconds=1)
SAGA = 7
SPREADS = [85345833600, 81370051200, 80508124800, 78876633600]


@pytest.fixture
def no_spread(monkeypatch):
    monkeypatch.setattr(policies, "SPREAD", 0)


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
    no_spread, asked_after: timedelta | None, expected_after: int
):
    result = Result("http_503", DUE, NOW, None if asked_after is None else NOW + asked_after)

    assert next_attempt_at(SAGA, 2, POLICY, result, BOUNDS) == NOW + timedelta(seconds=expected_after)


def test_retry_after_does_not_shorten_a_delay_that_is_longer_than_its_cap(no_spread):
    result = Result("http_503", DUE, NOW, NOW + timedelta(hours=5))

    assert next_attempt_at(SAGA, 9, POLICY, result, BOUNDS) == NOW + timedelta(seconds=7680)


@pytest.mark.parametrize("set_back", [timedelta(0), timedelta(seconds=1), timedelta(days=400)])
def test_the_next_attempt_is_later_than_the_one_before_even_if_the_clock_was_set_back(set_back: timedelta):
    policy = RetryPolicy(max_retry_limit=10, base_delay=timedelta(0))
    result = Result("timeout", NOW, NOW - set_back)

    assert next_attempt_at(SAGA, 1, policy, result, BOUNDS) == NOW + timedelta(microseconds=1)


@pytest.mark.requirement("R1-3d", "R1-3f", "R1-4.1d", "R1-6.1a", "R1-7.3c")
@pytest.mark.parametrize(
    ("limit", "attempts_before", "dead_lettered"),
    [(1, 0, True), (2, 0, False), (2, 1, True), (10, 8, False), (10, 9, True), (10, 10, True)],
)
def test_the_limit_counts_attempts_including_the_first(
    no_spread, limit: int, attempts_before: int, dead_lettered: bool
):
    policy = RetryPolicy(limit, timedelta(seconds=30))

    decision = decide(SAGA, attempts_before, policy, Result("timeout", DUE, NOW), BOUNDS)

    if dead_lettered:
        assert decision == Decision("DeadLettered")
    else:
        assert decision == Decision("PendingRetry", NOW + timedelta(seconds=30 * 2**attempts_before))


@pytest.mark.requirement("R1-6.1b")
@pytest.mark.parametrize("attempts_before", [0, 9])
def test_a_success_completes_after_any_number_of_attempts(attempts_before: int):
    assert decide(SAGA, attempts_before, POLICY, Result(None, DUE, NOW), BOUNDS) == Decision("Completed")


def test_bounds_change_the_delay_and_never_the_status():
    other = Bounds(timedelta(milliseconds=1), timedelta(0))

    for attempts_before in range(12):
        one = decide(SAGA, attempts_before, POLICY, Result("timeout", DUE, NOW), BOUNDS)
        two = decide(SAGA, attempts_before, POLICY, Result("timeout", DUE, NOW), other)
        assert one.status == two.status


@pytest.mark.requirement("R1-6.3b")
@pytest.mark.parametrize(
    ("limit", "base", "delays", "expected"),
    [
        (None, None, None, RetryPolicy(7, timedelta(seconds=11))),
        (2, None, None, RetryPolicy(2, timedelta(seconds=11))),
        (None, timedelta(seconds=3), None, RetryPolicy(7, timedelta(seconds=3))),
        (2, timedelta(seconds=3), None, RetryPolicy(2, timedelta(seconds=3))),
        (None, None, (5, 300, 60), RetryPolicy(4, timedelta(seconds=5), (5, 300, 60))),
    ],
)
def test_a_subscription_overrides_the_hubs_defaults_one_by_one(hub_settings, limit, base, delays, expected):
    hub_settings(max_retry_limit=7, base_delay=timedelta(seconds=11))

    assert RetryPolicy.with_overrides(limit, base, delays) == expected


def test_a_list_gives_the_delay_after_each_attempt_and_one_attempt_more(no_spread):
    policy = RetryPolicy.with_overrides(None, None, (5, 90_000, 60))

    decisions = [decide(SAGA, before, policy, Result("timeout", DUE, NOW), BOUNDS) for before in range(4)]

    assert decisions == [
        Decision("PendingRetry", NOW + timedelta(seconds=5)),
        Decision("PendingRetry", NOW + timedelta(seconds=90_000)),  # the cap is for delays that double
        Decision("PendingRetry", NOW + timedelta(seconds=60)),
        Decision("DeadLettered"),
    ]


durations = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(days=30))


@given(durations, st.integers(1, 2**63), st.integers(1, 1000))
def test_a_delay_is_spread_by_at_most_a_tenth(seconds: timedelta, saga_id: int, attempts: int):
    result = spread(seconds, saga_id, attempts)

    assert abs(result - seconds) <= seconds / 10 + policies.MICROSECOND
    assert result == spread(seconds, saga_id, attempts)
    assert result > timedelta(0)


@given(durations, st.integers(1, 2**63), st.integers(1, 999))
def test_a_delay_that_doubles_never_gets_shorter_except_by_the_spread(base: timedelta, saga_id: int, attempts: int):
    policy = RetryPolicy(1000, base)
    first, second = (delay(number, policy, BOUNDS.max_delay) for number in (attempts, attempts + 1))

    assert min(base, BOUNDS.max_delay) <= first <= second <= BOUNDS.max_delay
    assert spread(second, saga_id, attempts + 1) >= 0.8 * spread(first, saga_id, attempts)


def test_deliveries_that_failed_together_return_over_the_whole_spread():
    """Ten equal parts of the range get about as many each."""
    hour = timedelta(hours=1)
    results = [spread(hour, saga_id, 1) / hour for saga_id in range(10_000)]

    parts = Counter(int((result - 0.9) * 50) for result in results)

    assert all(800 <= parts[part] <= 1200 for part in range(10)), parts
    assert min(results) < 0.901
    assert max(results) > 1.099


def test_the_spread_of_an_attempt_is_the_same_in_every_process_and_version():
    """These values are stored in databases as times: a change would move them after a crash."""
    day = timedelta(days=1)

    assert [spread(day, *key) // policies.MICROSECOND for key in ((1, 1), (1, 2), (2, 1), (2**62, 999))] == SPREADS


def test_the_default_schedule_outlasts_three_days():
    """Even if the spread shortens every delay, a delivery is tried after an outage of three days."""
    defaults = HubSettings()
    policy = RetryPolicy(defaults.max_retry_limit, defaults.base_delay)
    delays = [delay(number, policy, defaults.max_delay) for number in range(1, policy.max_retry_limit)]

    assert (policy.max_retry_limit, sum(delays, timedelta())) == (20, timedelta(hours=80, minutes=31, seconds=30))
    assert sum(delays, timedelta()) * 0.9 >= timedelta(days=3)
    assert sum(delays, timedelta()) * 1.1 < timedelta(days=4)
