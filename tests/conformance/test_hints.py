"""Hints save queries and are never needed: they may be missing, late, repeated or wrong."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.intake import NewEvent, publish, publish_many
from events.models import Event, RoutingInbox
from events.routing import Router, RouterStep
from jobs.lease import lease_hinted
from jobs.models import Job
from jobs.report import report
from jobs.step import WorkerStep
from sagas.dispatch import dispatch, dispatch_hinted
from sagas.models import Saga
from sagas.orchestrator import Orchestrator
from sagas.settle import Settler
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory
from tests.webhookhub.integrity.support import assert_clean
from tests.webhookhub.stats.agreement import assert_counters_agree
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.db import clock
from webhookhub.egress.engine import Engine
from webhookhub.runner import hints, notifier
from webhookhub.runner.database import usual
from webhookhub.runner.managed_step import ManagedStep
from webhookhub.runner.step import Step

from . import world
from .crashes import crash, points_of_change, statements_of
from .world import BATCH, WORKER

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]

# To route: read and insert. To dispatch: insert. To lease: update and read. To report: update.
HINTED_STATEMENTS = 6


class Hub:
    """The steps of a hub that runs them in one process."""

    def __init__(self) -> None:
        self.router, self.orchestrator, self.worker = RouterStep(), Orchestrator(), WorkerStep(WORKER)
        self.steps: dict[str, Step] = {
            "router": self.router,
            "orchestrator": self.orchestrator,
            "worker": self.worker,
        }

    def turn(self, *, poll: bool = True) -> None:
        for step in self.steps.values():
            step.run(BATCH, poll=poll)

    def widen(self, url: str) -> None:
        """As if the endpoint had responded quickly for some time."""
        endpoint = Endpoint.objects.get(callback_url=url).pk
        self.orchestrator._flow.windows.at(endpoint).size = 100

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(2000):
            self.turn()
            if condition():
                return
        raise AssertionError("the condition does not hold after 2000 turns")

    def deliver(self) -> None:
        """Until every result is reported and its saga has ended."""
        self.until(lambda: not self.worker.pending() and not Saga.objects.exclude(status="Completed").exists())

    def finish(self) -> None:
        for step in self.steps.values():
            step.finish(BATCH)


@pytest.fixture
def hub(endpoint: HttpsEndpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    running = Hub()  # after `endpoint`, whose authority its worker trusts
    monkeypatch.setattr(notifier, "steps_of_this_process", running.steps)
    yield running
    running.worker.close()


def subscribe(endpoint: HttpsEndpoint) -> None:
    SubscriptionFactory(event_type=world.TYPE, callback_url=endpoint.url())


def all_is_over() -> None:
    """Nothing is left to do, and everything was counted once."""
    assert not world.work_left()
    assert_counters_agree()
    assert_clean()


def test_polling_alone_finds_everything(hub: Hub, endpoint: HttpsEndpoint, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notifier, "_notify", lambda kind, topic, ids: None)
    subscribe(endpoint)
    publish_many([NewEvent(world.TYPE, n) for n in range(5)])
    publish(world.TYPE, 5)

    hub.until(lambda: Saga.objects.filter(status="Completed").count() == 6)
    hub.until(lambda: not world.work_left())

    assert len(endpoint.received) == 6
    all_is_over()


def hinted_statements(hub: Hub, endpoint: HttpsEndpoint, events: int) -> list[str]:
    """Of the delivery of some events in a hub that has polled just now."""
    subscribe(endpoint)
    hub.widen(endpoint.url())
    publish(world.TYPE, 0)
    hub.deliver()
    hub.finish()
    publish_many([NewEvent(world.TYPE, n) for n in range(events)]) if events > 1 else publish(world.TYPE, 1)
    with CaptureQueriesContext(connection) as captured:
        hub.turn(poll=False)
        while hub.worker.pending():
            hub.worker.run(BATCH, poll=False)
        hub.orchestrator.run(BATCH, poll=False)
    assert Job.objects.filter(status="Completed").count() == events + 1
    return [query["sql"] for query in captured.captured_queries]


@pytest.fixture(params=[logging.WARNING, logging.INFO])
def level(request: pytest.FixtureRequest) -> Iterator[int]:
    logger = logging.getLogger("webhookhub")
    before = logger.level
    logger.setLevel(request.param)
    yield request.param
    logger.setLevel(before)


def test_one_event_takes_few_statements(hub: Hub, endpoint: HttpsEndpoint, level: int):
    statements = hinted_statements(hub, endpoint, 1)
    for_logs = 1 if level == logging.INFO else 0  # the event's uid and correlation id
    assert len(statements) == HINTED_STATEMENTS + for_logs, "\n".join(statements)
    # What is left is done when it is due.
    assert RoutingInbox.objects.count() == 1
    assert Job.objects.filter(settled_at__isnull=True).count() == 1
    assert hub.router.pending() == "1 routed event in the inbox"
    assert hub.orchestrator.pending() == "1 result to settle"
    assert 0 < hub.router.idle_for() <= hints.Held.SECONDS
    hub.finish()
    assert not hub.router.pending() + hub.orchestrator.pending()
    all_is_over()


def test_many_events_take_hardly_more_statements_than_one(hub: Hub, endpoint: HttpsEndpoint):
    statements = hinted_statements(hub, endpoint, 20)
    assert len(statements) < 2.5 * HINTED_STATEMENTS, "\n".join(statements)
    hub.finish()
    all_is_over()


def test_deferred_writes_are_done_in_time(hub: Hub, endpoint: HttpsEndpoint, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hints.Held, "SECONDS", 0.0)
    subscribe(endpoint)
    publish(world.TYPE, 1)
    hub.deliver()
    hub.turn()
    all_is_over()


def test_a_delivery_is_in_progress_soon_even_if_its_endpoint_does_not_respond(hub: Hub):
    world.subscribe("ok")
    hub.turn()
    publish(world.TYPE, 1)
    hub.router.run(BATCH, poll=False)
    hub.orchestrator.run(BATCH, poll=False)
    assert Saga.objects.get().status == "Pending"
    assert Job.objects.count() == 1
    assert hub.orchestrator.pending() == "1 delivery to set InProgress"
    assert 0 < hub.orchestrator.idle_for() <= hints.Held.SECONDS
    hub.orchestrator.finish(BATCH)
    assert Saga.objects.get().status == "InProgress"
    assert not hub.orchestrator.pending()


def test_deferred_progress_is_recorded_by_any_orchestrator(hub: Hub):
    world.subscribe("ok")
    hub.turn()
    publish(world.TYPE, 1)
    hub.router.run(BATCH, poll=False)
    hub.orchestrator.run(BATCH, poll=False)
    Orchestrator().run(BATCH)
    assert Saga.objects.get().status == "InProgress"
    hub.orchestrator.finish(BATCH)
    assert Saga.objects.get().status == "InProgress"
    assert Job.objects.count() == 1


def test_deferred_writes_are_done_when_a_batch_is_full(hub: Hub):
    world.subscribe("ok")
    hub.turn()
    publish(world.TYPE, 1)
    hub.router.run(2, poll=False)
    assert RoutingInbox.objects.count() == 1
    publish(world.TYPE, 2)
    hub.router.run(2, poll=False)
    assert not RoutingInbox.objects.exists()


@pytest.mark.parametrize("topic", ["deliveries", "results"])
def test_due_retries_are_found_however_many_hints_arrive(hub: Hub, topic: str):
    managed = ManagedStep("orchestrator", lambda name: hub.orchestrator, usual(), 0.01)
    managed.start(hub.orchestrator, lambda: None)
    managed.run(BATCH)
    world.subscribe("retry")
    world.publish_some("a")
    world.route()
    dispatch(BATCH)
    world.deliver()
    world.settle()
    world.let_time_pass()
    with closing(managed):
        for _ in range(100_000):
            managed.hint(topic, [2**40])
            managed.run(BATCH)
            if Saga.objects.get().status == "InProgress":
                return
    raise AssertionError("the due retry was not found")


def test_too_many_hints_are_dropped_and_polling_finds_the_rows(hub: Hub):
    world.subscribe("ok")
    hub.turn()
    world.publish_some("a")
    for number in range(1, hints.MAX_HINTS + 1):
        hub.router.hint("events", [2**40 + number])
    assert len(hub.router._events) == 0
    assert hub.router.hints_in() == 0
    hub.router.run(BATCH, poll=False)
    assert Saga.objects.count() == 1


def test_hints_that_exceed_a_batch_are_used_at_once(hub: Hub):
    world.subscribe("ok")
    hub.widen(world.url("ok"))
    hub.turn()
    publish_many([NewEvent(world.TYPE, n) for n in range(5)])
    for routed in (2, 4, 5):
        assert hub.router.hints_in() == 0
        hub.router.run(2, poll=False)
        assert Saga.objects.count() == routed
    assert hub.router.hints_in() == math.inf
    for dispatched in (2, 4, 5):
        assert hub.orchestrator.hints_in() == 0
        hub.orchestrator.run(2, poll=False)
        assert Job.objects.count() == dispatched
    assert hub.orchestrator.hints_in() > 0  # until the next look at the park
    for leased in (2, 4, 5):
        assert hub.worker.hints_in() == 0
        hub.worker.run(2, poll=False)
        assert Job.objects.exclude(status="Pending").count() == leased
    assert hub.worker.hints_in() == math.inf


def test_a_notification_right_after_a_poll_is_remembered(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    hub.turn()
    worker = hub.worker._worker
    monkeypatch.setattr(worker, "_collect_until", time.monotonic() + 60)
    # Most slots are used, so that the worker collects free ones before it leases more.
    monkeypatch.setattr(worker._engine, "concurrency", 10 * worker._engine.concurrency)
    monkeypatch.setattr(Engine, "free", 1)
    hub.worker.hint("", [])
    hub.worker.run(BATCH, poll=False)
    assert 50 < hub.worker.hints_in() <= 60


def test_the_drain_settles_results_and_dispatches_nothing(hub: Hub):
    world.subscribe("ok")
    world.publish_some("a")
    world.route()
    dispatch(BATCH)
    world.publish_some("b")
    world.route()
    world.deliver()
    hub.orchestrator.hint("results", ids_of(Job))
    hub.orchestrator.hint("deliveries", ids_of(Saga))
    hub.orchestrator.finish(BATCH)
    assert sorted(Saga.objects.values_list("status", flat=True)) == ["Completed", "Pending"]
    assert not Job.objects.filter(settled_at__isnull=True).exists()


FORGED: list[Any] = [[0], [-1], [2**63], [2**64], ["1; DROP TABLE events"], [None], [1.5], [True], [10**9]]


def test_forged_hints_change_nothing(hub: Hub):
    hub.turn()
    for topic in ("events", "deliveries", "attempts", "results", "", "nonsense"):
        for ids in FORGED:
            for step in hub.steps.values():
                step.hint(topic, ids)
            hub.turn()
    assert not Saga.objects.exists()
    assert not Job.objects.exists()


def state() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Saga, Job, RoutingInbox)]


def ids_of(model: Any) -> list[int]:
    return list(model.objects.values_list("pk", flat=True))


def settle_hinted(settler: Settler, job_ids: list[int]) -> int:
    settler.hinted.add(job_ids)
    return settler.settle_hinted(BATCH)


def test_hints_of_rows_that_are_not_ready_change_nothing():
    """Each row in each state in which its step must leave it alone."""
    world.subscribe("ok", "retry", "dead")
    SubscriptionFactory(event_type=world.TYPE, active=False)
    world.publish_some("a")
    world.route()
    saga = Saga.objects.get(subscription__callback_url=world.url("ok"))
    Subscription.objects.filter(id=saga.subscription_id).update(active=False)
    assert dispatch_hinted([saga.id]) == 0  # its subscription gets no deliveries
    Subscription.objects.filter(id=saga.subscription_id).update(active=True)
    Saga.objects.update(next_attempt_at=clock.now() + timedelta(hours=1))
    assert dispatch_hinted([saga.id]) == 0  # not due
    assert not Job.objects.exists()
    world.let_time_pass()
    assert dispatch_hinted(ids_of(Saga)) == 3
    before = state()
    assert dispatch_hinted(ids_of(Saga)) == 0  # in progress
    assert settle_hinted(Settler(), ids_of(Job)) == 0  # not finished
    assert state() == before
    jobs = world.take()
    before = state()
    assert lease_hinted("another", ids_of(Job)) == []  # leased
    assert settle_hinted(Settler(), ids_of(Job)) == 0
    assert state() == before
    report(WORKER, world.reports(jobs))
    before = state()
    assert lease_hinted("another", ids_of(Job)) == []  # finished
    assert state() == before
    world.settle()
    before = state()
    assert settle_hinted(Settler(), ids_of(Job)) == 0  # settled
    assert dispatch_hinted(ids_of(Saga)) == 0  # ended, or waiting for a retry
    assert Router().route_hinted(ids_of(Event), BATCH) == (0, [])  # routed
    assert state() == before
    world.run_to_end()
    all_is_over()


def test_a_job_that_may_not_be_leased_yet_is_not_leased_by_a_hint():
    world.subscribe("ok")
    world.publish_some("a")
    world.route()
    dispatch(BATCH)
    Job.objects.update(lease_until=clock.now() + timedelta(hours=1))
    assert lease_hinted(WORKER, ids_of(Job)) == []


@pytest.mark.parametrize("first", ["hinted", "polling"])
def test_an_event_that_two_routers_have_routed_is_counted_once(first: str):
    world.subscribe("ok", "dead")
    world.publish_some("a", "b")
    publish("nobody.wants", {})
    routers = Router(), Router()
    for router in routers:
        router.route_hinted(ids_of(Event), BATCH)
    if first == "polling":
        assert routers[1].route(1) == 0  # it has removed what it has routed itself
        assert world.route() == 0
    for router in routers:
        router.remove_routed(BATCH)
    assert Saga.objects.count() == 4
    world.run_to_end()
    all_is_over()


def test_a_result_that_two_orchestrators_have_settled_is_counted_once():
    world.subscribe("ok", "retry", "dead")
    world.publish_some("a", "b")
    world.route()
    dispatch(BATCH)
    world.deliver()
    settlers = Settler(), Settler()
    Settler().settle(1)
    assert [settle_hinted(settler, ids_of(Job)) for settler in settlers] == [4, 0]
    world.run_to_end()
    all_is_over()


def test_a_process_killed_before_its_deferred_writes_leaves_nothing_uncounted():
    """Between the saga and the event's removal, and between a result and its settling."""
    world.subscribe("ok", "dead")
    world.publish_some("a")
    Router().route_hinted(ids_of(Event), BATCH)
    assert dispatch_hinted(ids_of(Saga)) == 2
    world.deliver()
    Settler().hinted.add(ids_of(Job))
    assert RoutingInbox.objects.count() == 1

    world.run_to_end()

    assert Saga.objects.count() == 2
    all_is_over()


def test_a_router_killed_at_any_write_counts_everything_once():
    world.subscribe("ok", "dead")

    def work() -> None:
        router = Router()
        router.route_hinted(list(RoutingInbox.objects.values_list("event_id", flat=True)), BATCH)
        router.remove_routed(BATCH)

    world.publish_some("a", "b")
    for point in points_of_change(statements_of(work)):
        world.publish_some(f"a{point.statement}{point.executed}", f"b{point.statement}{point.executed}")
        crash(work, point)
        world.route()
        assert_counters_agree()
    world.run_to_end()
    all_is_over()
