"""An event inserted by SQL may have any time, or none: no workflow is led astray or held up by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from tests.workflows.lives import DEFINITIONS, event_type
from tests.workflows.support import catch_up, expire, instance, tell, told_before, tracked
from webhookhub.db import clock
from workflows import versions
from workflows.matching import AHEAD, EARLIEST, plausible
from workflows.models import Fact
from workflows.replay import replay
from workflows.state import DONE, FAILURE, UNDONE
from workflows.statistics import statistics

pytestmark = pytest.mark.django_db
ORDER = next(each for each in DEFINITIONS if each.name == "order_submission")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def insert(kind: str, key: str, created_at: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO events (event_type, source, correlation_id, payload, created_at) "
            "VALUES (%s, 'sql', %s, '{}', %s)",
            [kind, key, created_at],
        )


def followed_from_now(key: str) -> None:
    """As if it had happened when the hub looked; and another one's time-out is noticed, which comes after it."""
    before = clock.now()
    told_before(ORDER, ("order", DONE), "overdue", ORDER.timeout + timedelta(minutes=1))
    tell(ORDER, ("order", DONE), "other")
    catch_up()
    expire()

    found = instance(key)
    assert before - timedelta(minutes=1) <= found.started_at <= clock.now()
    assert found.deadline is not None
    assert found.deadline <= found.started_at + ORDER.timeout
    assert found.status == instance("other").status == "IN_PROGRESS"
    assert instance("overdue").status != "IN_PROGRESS"
    assert [fact.occurred_at for fact in Fact.objects.filter(instance=found)] == [found.started_at]
    assert [each for batch in replay(versions.in_force(), 500) for each in batch.differences] == []


@pytest.mark.parametrize("created_at", ["9999-12-31 23:59:59", "0001-01-01 00:00:00"])
def test_an_event_with_an_impossible_time_counts_from_when_the_hub_has_seen_it(created_at: str):
    tracked()
    insert("order.submitted", "odd", created_at)

    followed_from_now("odd")


@pytest.mark.mysql_family
def test_an_event_with_a_time_that_is_none_counts_from_when_the_hub_has_seen_it():
    tracked()
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.sql_mode")
        [mode] = cursor.fetchone()
        cursor.execute("SET sql_mode = ''")
        try:
            insert("order.submitted", "odd", "0000-00-00 00:00:00")
        finally:
            cursor.execute("SET sql_mode = %s", [mode])

    followed_from_now("odd")


def test_while_an_event_with_an_impossible_time_waits_others_time_out():
    tracked()
    told_before(ORDER, ("order", DONE), "overdue", ORDER.timeout + timedelta(minutes=1))
    catch_up()
    insert("order.submitted", "odd", "0001-01-01 00:00:00")

    assert expire() == 1


def test_a_failure_of_the_year_one_does_not_count_as_noticed_late():
    tracked()
    tell(ORDER, ("order", DONE), "odd")
    insert(event_type(ORDER, ("inventory", FAILURE)), "odd", "0001-01-01 00:00:00")
    catch_up()
    insert(event_type(ORDER, ("order", UNDONE)), "odd", "0001-01-01 00:00:00")
    catch_up()

    assert instance("odd").status == "COMPENSATED"
    [found] = [each for each in statistics(ORDER).targets if each.name == "time to detect a failure"]
    assert (found.is_met, found.basis) == (True, 1)


@pytest.mark.parametrize("at", [NOW, NOW - timedelta(days=400), NOW + AHEAD, EARLIEST])
def test_a_time_that_is_possible_is_believed(at: datetime):
    assert plausible(at, NOW) == at


@pytest.mark.parametrize("at", [None, NOW + AHEAD + MOMENT, EARLIEST - MOMENT, datetime.max.replace(tzinfo=UTC)])
def test_a_time_that_is_impossible_is_taken_for_the_present(at: datetime | None):
    assert plausible(at, NOW) == NOW
