"""The counters equal an exact count, with concurrent processes and after a crash at any statement."""

from __future__ import annotations

import pytest

from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.models import RoutingInbox
from events.routing import Router
from jobs.cleaner import clean
from jobs.models import Job
from sagas.dispatch import dispatch
from sagas.settle import Settler
from tests.conformance import world
from tests.conformance.crashes import crash, points_of_change, statements_of
from tests.conformance.rivals import Rival, rows_are_locked_one_by_one, together
from tests.conformance.steps import STEPS
from tests.conformance.test_crash_points import fresh_type
from tests.webhookhub.integrity.population import populate

from .agreement import assert_counters_agree

pytestmark = pytest.mark.every_engine

# The last statement of a settlement before the transaction in which jobs are marked and counted.
APPLIED = "UPDATE webhook_delivery_sagas"
MARK = "UPDATE webhook_delivery_jobs"
COUNTING = [step for step in STEPS if step.name in ("route", "settle all three", "clean", "requeue")]


@pytest.mark.django_db
def test_the_counters_agree_in_every_state_of_deliveries():
    populate()
    assert_counters_agree()
    world.run_to_end()
    assert_counters_agree()


@pytest.mark.django_db
def test_an_event_without_subscription_is_counted_as_unmatched():
    world.publish_some("a", "b")
    world.route()
    assert_counters_agree()


def finished(*names: str, events: int = 1) -> None:
    world.subscribe(*names)
    world.publish_some(*map(str, range(events)))
    world.route()
    dispatch(world.BATCH)
    world.deliver()


def test_two_orchestrators_with_the_same_results_count_each_once(committed: None):
    finished("ok", "retry", "dead", events=5)
    with Rival(world.settle, after=APPLIED) as slow:
        slow.reached()
        world.settle()
        slow.result()
    assert_counters_agree()


def test_an_orchestrator_counts_only_the_results_that_another_has_not_counted(committed: None):
    finished("ok", events=6)
    with Rival(world.settle, after=APPLIED) as slow:
        slow.reached()  # the sagas have applied all six
        Settler().settle(2)
        assert Job.objects.filter(settled_at__isnull=True).count() == 4
        slow.result()
    assert not Job.objects.filter(settled_at__isnull=True).exists()
    assert_counters_agree()


def test_many_orchestrators_at_once_count_each_result_once(committed: None):
    finished("ok", "retry", "dead", events=40)
    together(*[world.settle] * 4)
    assert_counters_agree()


def test_many_routers_at_once_count_each_event_once(committed: None):
    world.subscribe("ok", "retry")
    world.publish_some(*map(str, range(60)))

    def route_all() -> None:
        while Router().route(7):
            pass

    together(*[route_all] * 4)
    while RoutingInbox.objects.exists():
        world.route()
    assert_counters_agree()


def test_many_cleaners_at_once_count_each_reset_once(committed: None):
    world.subscribe("ok", "retry")
    world.publish_some(*map(str, range(30)))
    world.route()
    dispatch(world.BATCH)
    world.take()
    world.expire_leases()
    together(*[lambda: clean(world.BATCH)] * 4)
    assert_counters_agree()


def test_concurrent_requeues_of_the_same_dead_letters_are_counted_once(committed: None):
    finished("dead1", "dead2", events=10)
    world.settle()
    letters = list(DeadLetter.objects.values_list("id", flat=True))
    together(*[lambda: requeue(letters, by=world.Staff(), reason="again")] * 4)
    assert_counters_agree()


def test_results_are_not_counted_before_they_are_marked(committed: None):
    if not rows_are_locked_one_by_one():
        pytest.skip("SQLite cannot read the counters while a transaction is open")
    finished("ok")
    with Rival(world.settle, after=MARK) as slow:
        slow.reached()
        assert_counters_agree()
        slow.result()
    assert_counters_agree()


@pytest.mark.parametrize("step", COUNTING, ids=str)
def test_a_step_interrupted_at_any_statement_and_run_again_counts_each_once(committed: None, step):
    statements = statements_of(step.prepare(fresh_type()))
    assert_counters_agree()
    for point in points_of_change(statements):
        work = step.prepare(fresh_type())
        crash(work, point)
        assert_counters_agree()
        step.recover()
        work()
        assert_counters_agree()
