"""First attempts that wait in the orchestrator's memory, because the window of their endpoint opens soon."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from jobs.lease import lease
from jobs.models import Job
from jobs.report import Report, report
from sagas import queues
from sagas.dispatch import StartedSagas, dispatch, dispatch_hinted, dispatch_queued, park_overdue
from sagas.flow import Flow, SettledResult
from sagas.models import Saga
from sagas.orchestrator import Orchestrator
from sagas.queues import LONGEST_SECONDS
from sagas.windows import SMALLEST
from subscriptions.models import Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.conf import hub

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]
BATCH = 100
URL = "https://127.0.0.1:8443/quick"


def subscribe(url: str = URL, **values: object) -> Any:
    return SubscriptionFactory.create(callback_url=url, **values)


def waiting(subscription: Subscription, count: int, **values: object) -> list[int]:
    return [SagaFactory.create(event=EventFactory(), subscription=subscription, **values).id for _ in range(count)]


def parked() -> list[int]:
    return list(Saga.objects.filter(parked_subscription_id__isnull=False).order_by("id").values_list("id", flat=True))


def attempted() -> list[int]:
    return list(Job.objects.order_by("id").values_list("saga_id", flat=True))


def finish() -> list[int]:
    jobs = lease("worker", BATCH)
    report("worker", [Report(job, None, 204, duration_ms=1) for job in jobs])
    return [job.id for job in jobs]


@pytest.mark.parametrize("hinted", [True, False])
def test_deliveries_just_beyond_the_window_are_not_parked(hinted: bool):
    ids = waiting(subscribe(), 10)
    flow = Flow()
    assert (dispatch_hinted(ids, flow) if hinted else dispatch(BATCH, flow=flow)) == 10
    assert attempted() == ids[:SMALLEST]
    assert parked() == []
    assert dispatch(BATCH, flow=flow) == dispatch_queued(BATCH, flow) == 0

    while len(attempted()) < 10:
        flow.note_finished(finish())
        assert flow.due_in() == 0
        assert dispatch_queued(BATCH, flow)
    assert attempted() == ids
    assert Counter(Saga.objects.values_list("status", flat=True)) == {"InProgress": 10}
    assert not flow.queues.ids


def test_new_deliveries_wait_behind_queued_ones():
    subscription = subscribe()
    old = waiting(subscription, 3)
    flow = Flow()
    dispatch_hinted(old, flow)
    flow.note_finished(finish())
    new = waiting(subscription, 1)
    assert dispatch_hinted(new, flow) == 1
    assert attempted() == old[:2]
    dispatch_queued(BATCH, flow)
    assert attempted() == [*old, *new]


def test_polls_pass_over_queued_and_started_deliveries():
    ids = waiting(subscribe(), 5)
    flow, started = Flow(), StartedSagas()
    dispatch_hinted(ids, flow, started)
    other = waiting(subscribe("https://127.0.0.1:8443/other"), 1)
    assert dispatch(1, flow=flow, started=started.ids) == 1
    assert attempted() == [*ids[:SMALLEST], *other]


def test_what_the_endpoint_does_not_take_in_a_second_is_parked():
    ids = waiting(subscribe(), SMALLEST + hub().requests_per_host + 3)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    assert parked() == ids[-3:]
    assert flow.queues.ids == set(ids[SMALLEST:-3])


def test_retries_and_deliveries_of_limited_failing_or_silent_endpoints_are_parked(hub_settings):
    hub_settings(breaker_failures=1)
    retries = waiting(subscribe(), SMALLEST + 1, status="PendingRetry", attempt_count=1)
    failing, silent = (subscribe(f"https://127.0.0.1:8443/{name}") for name in ("failing", "silent"))
    flow = Flow()
    flow.note_results([SettledResult(0, failing.id, "http_500", 1), SettledResult(0, silent.id, None, 10_000)])
    limited = subscribe("https://127.0.0.1:8443/limited", rate_limit=1)
    flow.sweep()
    ids = [*waiting(failing, 1), *waiting(silent, SMALLEST + 1)[SMALLEST:], *waiting(limited, 2)[1:]]
    dispatch(BATCH, flow=flow)
    assert parked() == [retries[-1], *ids]
    assert not flow.queues.ids


def test_an_endpoint_that_is_slower_than_expected_has_its_queue_parked(monkeypatch: pytest.MonkeyPatch):
    ids = waiting(subscribe(), 6)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    park_overdue(flow)
    assert parked() == []
    later = time.monotonic() + LONGEST_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    park_overdue(flow)
    assert parked() == ids[SMALLEST:]
    assert not flow.queues.ids
    new = waiting(Subscription.objects.get(), 1)
    assert dispatch_hinted(new, flow) == 0  # it waits behind them, in the park


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(queues, "MAX_QUEUED", 5)
    for number in range(3):
        waiting(subscribe(f"https://127.0.0.1:8443/{number}"), SMALLEST + 3)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    assert len(flow.queues.ids) == 5
    assert len(parked()) == 4


def test_a_subscription_that_is_paused_meanwhile_gets_nothing():
    ids = waiting(subscribe(), 5)
    orchestrator = Orchestrator()
    orchestrator.run(BATCH)
    Subscription.objects.update(active=False)
    orchestrator.hint("results", finish())
    orchestrator.run(BATCH, poll=False)
    orchestrator.run(BATCH, poll=False)
    assert attempted() == ids[:SMALLEST]
    assert parked() == ids[SMALLEST:]


def test_another_orchestrator_may_dispatch_or_park_what_is_queued():
    ids = waiting(subscribe(), 6)
    orchestrators = [Orchestrator(), Orchestrator()]
    for orchestrator in orchestrators:
        orchestrator.run(BATCH)
    for _ in range(20):
        done = finish()
        for orchestrator in orchestrators:
            orchestrator.hint("results", done)
            orchestrator.run(BATCH)
    assert sorted(attempted()) == ids
    assert Counter(Saga.objects.values_list("status", flat=True)) == {"Completed": 6}


def test_a_change_of_subscriptions_empties_the_queues():
    waiting(subscribe(), 5)
    flow = Flow()
    flow.sweep()
    dispatch(BATCH, flow=flow)
    assert flow.queues.ids
    subscribe("https://127.0.0.1:8443/new")
    flow._sweep_at = 0.0
    flow.sweep()
    assert not flow.queues.ids


def test_what_an_orchestrator_had_queued_is_dispatched_by_the_next_one():
    ids = waiting(subscribe(), 5)
    Orchestrator().run(BATCH)
    finish()
    follower = Orchestrator()
    follower.run(BATCH)
    for _ in range(10):
        follower.hint("results", finish())
        follower.run(BATCH)
    assert attempted() == ids
