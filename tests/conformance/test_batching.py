"""Every step works on a batch as a whole: three hundred rows take as many statements as six."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.intake import NewEvent, publish_many
from jobs.cleaner import clean
from jobs.models import Job
from jobs.report import report
from sagas.dispatch import dispatch
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.support import legal_steps

from . import world
from .world import BATCH, WORKER

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]
FEW, MANY = 2, 100  # events, each for three subscriptions with three different outcomes
Work = Callable[[], object]


@pytest.fixture(autouse=True)
def _patient(hub_settings):
    hub_settings(base_delay=timedelta(hours=1), postpone=timedelta(hours=1))


def new_events(count: int) -> list[NewEvent]:
    return [NewEvent(world.TYPE, {"n": n}, external_id=f"e{n}") for n in range(count)]


def to_publish(count: int) -> Work:
    """A third of them are there already."""
    publish_many(new_events(count))
    return lambda: publish_many(new_events(3 * count))


def to_route(count: int) -> Work:
    world.subscribe("ok", "retry", "dead")
    publish_many(new_events(count))
    return world.route


def to_dispatch(count: int) -> Work:
    """A third of them first attempts, a third retries, a third postponed."""
    to_route(count)()
    for saga in Saga.objects.filter(subscription__callback_url__endswith="retry"):
        legal_steps.fail(saga, 1)
    Subscription.objects.filter(callback_url__endswith="dead").update(active=False)
    world.let_time_pass()
    return lambda: dispatch(BATCH)


def to_lease(count: int) -> Work:
    to_route(count)()
    dispatch(BATCH)
    return world.take


def to_report(count: int) -> Work:
    """One of the results is lost."""
    to_lease(count)
    reports = world.reports(world.take())
    Job.objects.filter(id=reports[0].job.id).update(lease_token="another's")
    return lambda: report(WORKER, reports)


def to_settle(count: int) -> Work:
    to_lease(count)
    world.deliver()
    return world.settle


def to_clean(count: int) -> Work:
    to_lease(count)
    world.take()
    world.expire_leases()
    return lambda: clean(BATCH)


def to_requeue(count: int) -> Work:
    to_route(count)
    world.run_to_end()
    letters = list(DeadLetter.objects.values_list("id", flat=True))
    return lambda: requeue(letters, by=world.Staff(), reason="again")


def statements(work: Work) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"][:100] for query in captured.captured_queries]


def in_vain(prepare: Callable[[int], Work], events: int) -> list[str]:
    """The statements of a step; what it did is undone."""
    with transaction.atomic():
        seen = statements(prepare(events))
        transaction.set_rollback(True)
    return seen


@pytest.mark.parametrize(
    "prepare", [to_publish, to_route, to_dispatch, to_lease, to_report, to_settle, to_clean, to_requeue]
)
def test_three_hundred_rows_take_as_many_statements_as_six(prepare):
    few, many = in_vain(prepare, FEW), in_vain(prepare, MANY)
    assert len(few) > 1
    assert len(many) == len(few), "\n".join(many)
