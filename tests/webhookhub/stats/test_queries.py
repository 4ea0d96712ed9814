"""Stats over a span of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webhookhub.db import clock
from webhookhub.stats import attempts, queries
from webhookhub.stats.attempts import AttemptResult
from webhookhub.stats.rollup import roll_up

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def count(at: datetime, subscription_id: int, completed: int, failed: int = 0, ms: int = 20) -> None:
    attempts.add(
        [AttemptResult(subscription_id, "completed", None, at, at, ms)] * completed
        + [AttemptResult(subscription_id, "retried", "http_500", at, at, ms)] * failed
    )


def overall(since: datetime, until: datetime) -> queries.Summary:
    [(_, summary)] = queries.series(since, until, until - since)
    return summary


def test_a_span_without_deliveries_has_no_rates():
    nothing = overall(NOON, NOON + HOUR)
    assert (nothing["attempts"], nothing.success_rate, nothing.duration_ms(0.5)) == (0, None, None)
    assert queries.by_subscription(NOON, NOON + HOUR) == {}


def test_a_summary_knows_rates_and_durations():
    count(NOON, 1, completed=9, failed=1, ms=20)
    count(NOON + timedelta(minutes=5), 1, completed=10, ms=200)
    count(NOON + HOUR, 1, completed=1000)

    summary = overall(NOON, NOON + HOUR)

    assert (summary["attempts"], summary["completed"], summary.failed) == (20, 19, 1)
    assert summary.success_rate == 0.95
    assert summary.duration_ms(0.5) == 25.0
    assert summary.duration_ms(0.95) == pytest.approx(235.0)


def test_stats_by_subscription_busiest_first_and_worst_first():
    count(NOON, 1, completed=10)
    count(NOON, 2, completed=2, failed=2)
    count(NOON, 3, completed=1, failed=99)
    found = queries.by_subscription(NOON, NOON + HOUR)
    assert [(id, summary["attempts"]) for id, summary in found.items()] == [(3, 100), (1, 10), (2, 4)]
    assert [id for id, _ in queries.worst(found, 5)] == [3, 2]
    assert [id for id, _ in queries.worst(found, 1)] == [3]


def test_idle_endpoints_that_failed_once_do_not_hide_the_one_that_fails_most():
    for idle in range(1, 6):
        count(NOON, idle, completed=0, failed=1)
    count(NOON, 6, completed=500, failed=500)
    count(NOON, 7, completed=9, failed=1)

    found = queries.by_subscription(NOON, NOON + HOUR)

    assert [id for id, _ in queries.worst(found, 7)] == [6, 1, 2, 3, 4, 5, 7]


def test_a_series_includes_empty_steps():
    count(NOON + timedelta(minutes=1), 1, completed=1)
    count(NOON + timedelta(minutes=2), 2, completed=2)
    count(NOON + timedelta(minutes=14, seconds=59), 1, completed=4)
    quarter = timedelta(minutes=5)

    steps = queries.series(NOON, NOON + timedelta(minutes=15), quarter)
    assert [(at, summary["attempts"]) for at, summary in steps] == [
        (NOON, 3),
        (NOON + quarter, 0),
        (NOON + 2 * quarter, 4),
    ]
    of_one = queries.series(NOON, NOON + timedelta(minutes=15), quarter, subscription_id=2)
    assert [summary["attempts"] for _, summary in of_one] == [2, 0, 0]
    assert len(queries.series(NOON, NOON + timedelta(minutes=11), quarter)) == 3


def test_hours_are_read_after_the_rollup():
    day = (clock.now() - timedelta(days=2)).replace(minute=0, second=0, microsecond=0)
    count(day + timedelta(minutes=10), 1, completed=3)
    before = overall(day, day + HOUR)
    while roll_up(100):
        pass
    assert overall(day, day + HOUR) == before
    assert [summary["attempts"] for _, summary in queries.series(day, day + 2 * HOUR, HOUR)] == [3, 0]


def test_stats_of_one_subscription_before_and_after_a_time():
    count(NOON, 1, completed=2, failed=1)
    count(NOON + HOUR, 1, completed=5)
    count(NOON + HOUR, 2, completed=9)
    count(NOON + 2 * HOUR, 1, completed=7)

    before, after = queries.of_subscription(1, NOON, NOON + HOUR, NOON + 2 * HOUR)

    assert (before["attempts"], before.failed) == (3, 1)
    assert (after["attempts"], after.failed) == (5, 0)
    assert queries.of_subscription(3, NOON, NOON + HOUR, NOON + 2 * HOUR)[1].success_rate is None
