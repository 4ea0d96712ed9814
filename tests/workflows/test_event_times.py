"""An event inserted by SQL may have any time. It must not distort or delay runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from tests.workflows.lives import ORDER
from tests.workflows.support import catch_up, differences, expire, instance, tell, told_before, tracked
from webhookhub.db import clock
from workflows import stats
from workflows.matching import AHEAD, EARLIEST, plausible
from workflows.models import Fact
from workflows.scenarios import event_type
from workflows.state import DONE, FAILURE, UNDONE

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
INTERVAL = timedelta(microseconds=1)


def insert(kind: str, key: str, created_at: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO events (event_type, source, correlation_id, payload, created_at) "
            "VALUES (%s, 'sql', %s, '{}', %s)",
            [kind, key, created_at],
        )


def followed_from_now(key: str) -> None:
    """The run counts from now, and time-outs of other runs are still detected."""
    before = clock.now()
    told_before(ORDER, ("order", DONE), "overdue", ORDER.timeout + timedelta(minutes=1))
    tell(ORDER, ("order", DONE), "other")
    catch_up()
    expire()

    run = instance(key)
    assert before - timedelta(minutes=1) <= run.started_at <= clock.now()
    assert run.deadline is not None
    assert run.deadline <= run.started_at + ORDER.timeout
    assert run.status == instance("other").status == "IN_PROGRESS"
    assert instance("overdue").status != "IN_PROGRESS"
    assert [fact.occurred_at for fact in Fact.objects.filter(instance=run)] == [run.started_at]
    assert differences() == []


@pytest.mark.parametrize("created_at", ["9999-12-31 23:59:59", "1970-01-01 00:00:00"])
def test_an_event_with_an_implausible_time_counts_from_now(created_at: str):
    tracked()
    insert("order.submitted", "odd", created_at)

    followed_from_now("odd")


def test_an_implausible_time_in_the_inbox_does_not_delay_time_outs():
    tracked()
    told_before(ORDER, ("order", DONE), "overdue", ORDER.timeout + timedelta(minutes=1))
    catch_up()
    insert("order.submitted", "odd", "1970-01-01 00:00:00")

    assert expire() == 1


@pytest.mark.requirement("R5-7d")
def test_an_implausible_time_does_not_distort_the_detection_time():
    tracked()
    tell(ORDER, ("order", DONE), "odd")
    insert(event_type(ORDER, ("inventory", FAILURE)), "odd", "1970-01-01 00:00:00")
    catch_up()
    insert(event_type(ORDER, ("order", UNDONE)), "odd", "1970-01-01 00:00:00")
    catch_up()

    assert instance("odd").status == "COMPENSATED"
    [target] = [target for target in stats.read(ORDER).targets if target.name == "time to detect a failure"]
    assert (target.is_met, target.basis) == (True, 1)


@pytest.mark.parametrize("at", [NOW, NOW - timedelta(days=400), NOW + AHEAD, EARLIEST])
def test_a_plausible_time_is_used(at: datetime):
    assert plausible(at, NOW) == at


@pytest.mark.parametrize("at", [None, NOW + AHEAD + INTERVAL, EARLIEST - INTERVAL, datetime.max.replace(tzinfo=UTC)])
def test_an_implausible_time_is_replaced_by_now(at: datetime | None):
    assert plausible(at, NOW) == NOW
