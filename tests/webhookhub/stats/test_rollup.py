"""Old minutes become hours and old hours go; nothing is lost or doubled on the way."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.step import CleanerStep
from tests.conformance.rivals import Rival, elsewhere, rows_are_locked_one_by_one, together
from webhookhub.db import clock
from webhookhub.stats import attempts
from webhookhub.stats.attempts import AttemptResult
from webhookhub.stats.models import Period
from webhookhub.stats.rollup import roll_up

from .agreement import periods

pytestmark = pytest.mark.every_engine


def minutes_ago(minutes: float) -> datetime:
    return clock.now() - timedelta(minutes=minutes)


def count(finished_at: datetime, subscription_id: int = 1, number: int = 1) -> None:
    attempts.add([AttemptResult(subscription_id, "completed", None, finished_at, finished_at, 20)] * number)


def stored_periods() -> list[tuple[str, datetime, int, int]]:
    rows = Period.objects.order_by("period", "starts_at", "subscription_id")
    return list(rows.values_list("period", "starts_at", "subscription_id", "attempts"))


def all_tidied(batch_size: int = 100) -> int:
    turns = 0
    while roll_up(batch_size):
        turns += 1
    return turns


@pytest.fixture(autouse=True)
def _short(hub_settings):
    hub_settings(stats_by_minute=timedelta(hours=2), stats_by_hour=timedelta(days=10))


@pytest.mark.django_db
def test_old_minutes_are_rolled_up_into_hours():
    hour = minutes_ago(60 * 24).replace(minute=0, second=0, microsecond=0)
    for minute, subscription in ((0, 1), (1, 1), (59, 1), (59, 2), (60, 1)):
        count(hour + timedelta(minutes=minute, seconds=30), subscription, 3)
    now = minutes_ago(0)
    count(now, 1)

    assert all_tidied() == 4

    assert sorted(stored_periods()) == [
        ("hour", hour, 1, 9),
        ("hour", hour, 2, 3),
        ("hour", hour + timedelta(hours=1), 1, 3),
        ("minute", now.replace(second=0, microsecond=0), 1, 1),
    ]


@pytest.mark.django_db
def test_a_late_result_is_added_to_its_hour():
    old = minutes_ago(60 * 24)
    count(old)
    all_tidied()
    count(old)
    all_tidied()
    [(period, _, _, attempts)] = stored_periods()
    assert (period, attempts) == ("hour", 2)


@pytest.mark.django_db
def test_old_hours_are_deleted():
    count(minutes_ago(60 * 24 * 11))
    count(minutes_ago(60 * 24 * 9))
    all_tidied()
    [(period, starts_at, _, _)] = stored_periods()
    assert (period, starts_at > minutes_ago(60 * 24 * 10)) == ("hour", True)


@pytest.mark.django_db
def test_a_batch_is_bounded_by_its_subscriptions():
    old = minutes_ago(60 * 24)
    for subscription in range(1, 8):
        count(old, subscription)
    assert roll_up(3) == 3
    assert sorted(row[2] for row in stored_periods() if row[0] == "hour") == [1, 2, 3]
    assert all_tidied(3) == 2
    assert [row[0] for row in stored_periods()] == ["hour"] * 7


def test_concurrent_cleaners_roll_up_each_minute_once(committed: None):
    old = minutes_ago(60 * 24)
    for minute in range(20):
        for subscription in (1, 2, 3):
            count(old + timedelta(minutes=minute), subscription, 2)

    together(*[lambda: all_tidied(2)] * 4)
    all_tidied()

    assert {row[0] for row in stored_periods()} == {"hour"}
    assert sum(row["attempts"] for row in periods().values()) == 120


def test_a_result_counted_during_the_rollup_of_its_minute_is_not_lost(committed: None):
    if not rows_are_locked_one_by_one():
        pytest.skip("SQLite has one writer at a time")
    old = minutes_ago(60 * 24)
    count(old, 2)
    with Rival(lambda: roll_up(10), before="DELETE FROM stats_periods") as slow:
        slow.reached()
        elsewhere(lambda: count(old, 1))
        assert slow.result() == 1
    assert sum(row["attempts"] for row in periods().values()) == 2
    all_tidied()
    assert sorted(row[:1] + row[2:] for row in stored_periods()) == [("hour", 1, 1), ("hour", 2, 1)]


def test_a_minute_that_another_cleaner_has_rolled_up_is_left_alone(committed: None):
    if not rows_are_locked_one_by_one():
        pytest.skip("SQLite has one writer at a time")
    count(minutes_ago(60 * 24), 1)
    with Rival(lambda: roll_up(10), after="SELECT stats_periods.starts_at") as slow:
        slow.reached()
        elsewhere(all_tidied)
        assert slow.result() == 0
    assert [row[0] for row in stored_periods()] == ["hour"]
    assert sum(row["attempts"] for row in periods().values()) == 1


@pytest.mark.django_db
def test_rolling_up_a_minute_takes_few_statements():
    old = minutes_ago(60 * 24)
    for subscription in range(50):
        count(old, subscription)
    with CaptureQueriesContext(connection) as captured:
        roll_up(100)
    assert len([query for query in captured.captured_queries if "SAVEPOINT" not in query["sql"]]) <= 7


@pytest.mark.django_db
def test_the_cleaner_rolls_up():
    count(minutes_ago(60 * 24))
    step = CleanerStep()
    assert step.run(100) == 1
    assert [row[0] for row in stored_periods()] == ["hour"]
    assert step.run(100) == 0
