"""Windows, the park, rate limits and the breaker, with a database."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from jobs.lease import lease
from jobs.models import Job
from jobs.report import Report, report
from sagas import flow as flow_module
from sagas import parking, queues
from sagas.create import correlation_ids, subscription_ids
from sagas.dispatch import admit, dispatch, dispatch_hinted
from sagas.flow import Flow, SettledResult
from sagas.models import Saga
from sagas.orchestrator import Orchestrator
from sagas.parking import READ_AT_ONCE, ParkedSubscriptions, oldest_parked, park, parked_subscriptions, unpark
from sagas.settle import Settler
from sagas.windows import SMALLEST
from subscriptions.endpoint_models import Endpoint
from subscriptions.endpoints import BURST, take_slots
from subscriptions.models import EndpointRate, Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.db import clock
from webhookhub.logs import Log

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]
BATCH = 100
URL = "https://127.0.0.1:8443/busy"


@pytest.fixture(autouse=True)
def everything_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not queued in memory: see test_queues.py."""
    monkeypatch.setattr(queues, "MAX_QUEUED", 0)


def busy() -> int:
    """The endpoint of URL."""
    return Endpoint.objects.get(callback_url=URL).pk


def subscribe(url: str = URL, **values: object) -> Any:
    return SubscriptionFactory.create(callback_url=url, **values)


def waiting(subscription: Subscription, count: int, **values: object) -> list[int]:
    return [SagaFactory.create(event=EventFactory(), subscription=subscription, **values).id for _ in range(count)]


def statuses() -> dict[str, int]:
    return dict(Counter(Saga.objects.values_list("status", flat=True)))


def parked() -> list[int]:
    return list(Saga.objects.filter(parked_subscription_id__isnull=False).order_by("id").values_list("id", flat=True))


def finish(error_code: str | None = None) -> list[int]:
    """All ready jobs get this result; returns their ids."""
    jobs = lease("worker", BATCH)
    report("worker", [Report(job, error_code, 204 if error_code is None else 500, duration_ms=1) for job in jobs])
    return [job.id for job in jobs]


def attempted() -> list[int]:
    return list(Job.objects.order_by("id").values_list("saga_id", flat=True))


def test_deliveries_beyond_the_window_are_parked_and_admitted_oldest_first():
    ids = waiting(subscribe(), 7)
    flow = Flow()

    assert dispatch(BATCH, flow=flow) == 7
    assert attempted() == ids[:SMALLEST]
    assert parked() == ids[SMALLEST:]
    assert dispatch(BATCH, flow=flow) == admit(BATCH, flow) == 0

    flow.note_finished(finish())
    assert admit(BATCH, flow) == 4  # two quick responses: the window has grown
    assert attempted() == ids[:6]
    flow.note_finished(finish())
    assert admit(BATCH, flow) == 1
    assert attempted() == ids
    assert parked() == []


def test_other_endpoints_do_not_wait_behind_a_busy_one():
    waiting(subscribe(), 50)
    others = [waiting(subscribe(f"https://127.0.0.1:8443/{n}"), 1)[0] for n in range(5)]
    flow = Flow()
    while dispatch(10, flow=flow):
        pass
    assert set(attempted()) >= set(others)
    assert len(attempted()) == SMALLEST + 5


def test_a_window_belongs_to_the_endpoint_whichever_subscription_is_due():
    first, second = subscribe(), subscribe(event_type="order.paid")
    ids = sorted([*waiting(first, 2), *waiting(second, 2), *waiting(first, 2)])
    flow = Flow()
    dispatch(BATCH, flow=flow)
    assert len(attempted()) == SMALLEST
    while len(parked()):
        flow.note_finished(finish())
        assert admit(BATCH, flow)
    assert attempted() == ids


def test_new_deliveries_wait_behind_parked_ones():
    subscription = subscribe()
    old = waiting(subscription, 5)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    flow.note_finished(finish())  # the window is open, and three deliveries wait

    new = waiting(subscription, 1)
    assert dispatch_hinted(new, flow) == 0
    assert dispatch(BATCH, flow=flow) == 1
    assert attempted() == old[:2]
    assert admit(BATCH, flow) == 4
    assert attempted() == [*old, *new]


def test_a_hinted_delivery_within_the_window_is_dispatched_without_a_look_at_the_park(
    django_assert_num_queries,
):
    subscription = subscribe()
    flow = Flow()
    flow.endpoint(subscription.id)
    [saga_id] = waiting(subscription, 1)
    subscription_ids.remember(saga_id, subscription.id)
    correlation_ids.remember(saga_id, "c")
    with django_assert_num_queries(2):
        assert dispatch_hinted([saga_id], flow) == 1
    assert statuses() == {"InProgress": 1}


def test_retries_are_parked_like_first_attempts():
    ids = waiting(subscribe(), 4, status="PendingRetry", attempt_count=1)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    assert parked() == ids[SMALLEST:]
    flow.note_finished(finish())
    admit(BATCH, flow)
    assert list(Job.objects.filter(attempt_no=2).order_by("id").values_list("saga_id", flat=True)) == ids
    assert statuses() == {"InProgress": 4}


def test_a_parked_retry_is_due_after_the_attempt_before_even_if_the_clock_was_set_back():
    [saga_id] = waiting(subscribe(), 1)
    ahead = clock.now() + timedelta(hours=1)
    Job.objects.create(saga_id=saga_id, attempt_no=1, attempt_at=ahead, lease_until=clock.now())
    Saga.objects.update(status="InProgress")
    finish("http_500")
    Settler().settle(BATCH)
    Saga.objects.update(next_attempt_at=clock.now())
    Subscription.objects.update(active=False)
    dispatch(BATCH)
    Subscription.objects.update(active=True)

    admit(BATCH, Flow())

    assert not Job.objects.filter(attempt_no=2).exists()
    assert Saga.objects.get(id=saga_id).next_attempt_at == ahead + timedelta(microseconds=1)


def test_a_paused_endpoint_is_read_once_and_resumes_at_its_own_pace():
    subscription = subscribe()
    ids = waiting(subscription, 6)
    Subscription.objects.update(active=False)
    flow = Flow()
    assert dispatch(BATCH, flow=flow) == 6
    assert parked() == ids
    assert dispatch(BATCH, flow=flow) == admit(BATCH, flow) == 0

    Subscription.objects.update(active=True)
    flow._sweep_at = 0.0
    assert admit(BATCH, flow) == SMALLEST
    assert attempted() == ids[:SMALLEST]


def test_an_endpoint_paused_after_the_sweep_gets_nothing():
    ids = waiting(subscribe(), 5)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    flow.note_finished(finish())
    Subscription.objects.update(active=False)
    assert admit(BATCH, flow) == 0
    assert parked() == ids[SMALLEST:]


def test_another_orchestrators_attempts_count():
    subscription = subscribe()
    waiting(subscription, 5)
    dispatch(BATCH, flow=Flow())
    other = Flow()
    assert admit(BATCH, other) == 0
    assert other.windows.at(busy()).open == SMALLEST
    finish()
    other._sweep_at = 0.0
    assert admit(BATCH, other) == SMALLEST


def test_an_orchestrator_that_has_just_started_continues_with_the_park():
    ids = waiting(subscribe(), 5)
    dispatch(BATCH, flow=Flow())
    finish()
    assert Orchestrator().run(BATCH) >= 0
    assert attempted() == ids[:4]


def test_the_orchestrator_wakes_up_for_the_park():
    waiting(subscribe(), 5)
    orchestrator = Orchestrator()
    orchestrator.run(BATCH)
    assert 0 < orchestrator.hints_in() <= flow_module.SWEEP_SECONDS
    orchestrator.hint("results", finish())
    assert orchestrator.hints_in() == 0
    orchestrator.run(BATCH, poll=False)
    assert len(attempted()) == 5


def test_results_that_are_found_by_polling_open_the_window():
    ids = waiting(subscribe(), 5)
    orchestrator = Orchestrator()
    orchestrator.run(BATCH)
    finish()
    orchestrator._flow._sweep_at = time.monotonic() + 60
    orchestrator.run(BATCH)
    assert attempted() == ids


def test_an_idle_orchestrator_looks_at_the_park_seldom():
    orchestrator = Orchestrator()
    orchestrator.run(BATCH)
    assert flow_module.SWEEP_SECONDS < orchestrator.hints_in() <= flow_module.IDLE_SWEEP_SECONDS


def test_while_nothing_changes_a_waiting_park_is_looked_at_seldom():
    waiting(subscribe(), 5)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    pauses = []
    for _ in range(5):
        flow._sweep_at = 0.0
        assert admit(BATCH, flow) == 0
        pauses.append(round(flow.due_in()))
    assert pauses == [1, 2, 4, 5, 5]
    flow.note_finished(finish())
    assert flow._sweep_at <= time.monotonic() + flow_module.SWEEP_SECONDS


def break_endpoint(flow: Flow, subscription: Subscription, failures: int) -> None:
    flow.note_results([SettledResult(0, subscription.id, "connect_error", 1)] * failures)


def test_an_endpoint_that_only_fails_is_probed_until_it_succeeds(hub_settings, caplog):
    hub_settings(breaker_failures=5)
    subscription = subscribe()
    ids = waiting(subscription, 4)
    flow = Flow()
    admit(BATCH, flow)
    break_endpoint(flow, subscription, 5)
    assert Log.ENDPOINT_BREAKER_OPENED.value[0] in caplog.text
    dispatch(BATCH, flow=flow)
    assert parked() == ids
    assert 0 < flow.due_in() <= 1.0

    window = flow.windows.at(busy())
    window.probe_at = time.monotonic()
    flow._wake_at = 0.0
    assert admit(BATCH, flow) == 1
    assert attempted() == ids[:1]
    flow._wake_at = 0.0
    assert admit(BATCH, flow) == 0

    flow.note_finished(finish())
    flow.note_results([SettledResult(0, subscription.id, None, 1)])
    assert Log.ENDPOINT_BREAKER_CLOSED.value[0] in caplog.text
    assert admit(BATCH, flow) == 3


def test_the_orchestrator_counts_settled_failures(hub_settings):
    hub_settings(breaker_failures=2)
    waiting(subscribe(), 6)
    orchestrator = Orchestrator()
    orchestrator.run(BATCH)
    orchestrator.hint("results", finish("http_500"))
    orchestrator.run(BATCH)
    assert orchestrator._flow.windows.probe_at(busy()) > 0
    assert statuses() == {"Pending": 4, "PendingRetry": 2}


class DatabaseClock:
    """The database's clock as flow control reads it: it stands still while the test's process waits for its turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.started = clock.now()
        self._monotonic = time.monotonic()
        monkeypatch.setattr(clock, "now", lambda: self.now)
        monkeypatch.setattr(time, "monotonic", lambda: self._monotonic + self.seconds)

    @property
    def seconds(self) -> float:
        return (self.now - self.started).total_seconds()


@pytest.mark.parametrize("rate", [2, 40])
def test_a_rate_limit_holds_across_orchestrators(rate: int, monkeypatch: pytest.MonkeyPatch):
    subscription = subscribe(rate_limit=rate)
    waiting(subscription, 2 * rate + 60)
    database = DatabaseClock(monkeypatch)
    flows = [Flow(), Flow()]
    for flow in flows:
        flow.windows.at(busy()).size = 1000
        flow.sweep()
    sent_at: list[float] = []
    while len(sent_at) < 60:
        for flow in flows:
            dispatch(BATCH, flow=flow)
            if not flow.due_in():
                admit(BATCH, flow)
            sent_at += [database.seconds] * (Job.objects.count() - len(sent_at))
        wait = min(flow.due_in() for flow in flows)
        assert 0 < wait <= 1 / rate + 0.001
        database.now += timedelta(microseconds=math.ceil(wait * 1e6))
    # The first ones go at once, as if the endpoint had been idle for the burst.
    burst = 1 + int(rate * BURST.total_seconds())
    assert sent_at[:burst] == [0.0] * burst
    steady = sent_at[burst - 1 :]
    assert (len(steady) - 1) / (steady[-1] - steady[0]) == pytest.approx(rate, rel=0.02)


def test_a_slot_is_reserved_by_one_process(monkeypatch: pytest.MonkeyPatch):
    subscribe()
    assert take_slots(busy(), 1, 5).taken == 1
    stale = EndpointRate.objects.values_list("free_at", flat=True).get()
    EndpointRate.objects.update(free_at=clock.now() - BURST)
    first = EndpointRate.objects.filter

    def outdated(**values: object) -> object:
        """As if another process had reserved the slot after this one has read the row."""
        return first(**{**values, "free_at": stale}) if "free_at" in values else first(**values)

    monkeypatch.setattr(EndpointRate.objects, "filter", outdated)
    assert take_slots(busy(), 1, 5).taken == 0


def test_deliveries_of_a_limited_endpoint_are_parked():
    ids = waiting(subscribe(rate_limit=1), 3)
    flow = Flow()
    admit(BATCH, flow)
    dispatch(BATCH, flow=flow)
    assert attempted() == ids[:1]
    assert parked() == ids[1:]
    assert 0.5 < flow.due_in() <= 1.0


def test_only_due_deliveries_are_parked_and_only_parked_ones_are_made_due():
    later = clock.now() + timedelta(hours=1)
    [saga_id] = waiting(subscribe(), 1, next_attempt_at=later)
    assert park([saga_id], "Pending") == unpark([saga_id], "Pending") == 0
    assert Saga.objects.get(id=saga_id).next_attempt_at == later


def test_all_parked_subscriptions_deliveries_are_found():
    wanted: list[int] = []
    for number in range(2 * READ_AT_ONCE + 3):
        subscription = subscribe(f"https://127.0.0.1:8443/{number}", active=False)
        wanted.append(subscription.id)
        waiting(subscription, 2 if number % 100 == 0 else 1)
    while dispatch(2000):
        pass
    assert parked_subscriptions() == wanted
    known = ParkedSubscriptions()
    known.refresh()
    Saga.objects.filter(subscription_id__in=[wanted[0], wanted[70], wanted[-1]]).update(next_attempt_at=clock.now())
    known.refresh()
    assert sorted(known.ids) == [*wanted[1:70], *wanted[71:-1]]
    assert park(list(Saga.objects.values_list("id", flat=True)), "Pending") == 4
    known.refresh()
    assert sorted(known.ids) == wanted
    limits = dict.fromkeys(wanted, 1)
    rows = oldest_parked(limits)
    assert sorted(subscription_id for _, subscription_id, *_ in rows) == wanted
    assert _first_of_each(rows)


def test_very_many_subscriptions_with_parked_deliveries_are_found_in_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parking, "READ_AT_ONCE", 3)
    monkeypatch.setattr(parking, "MAX_LOOK_UPS", 5)
    wanted = [subscribe(f"https://127.0.0.1:8443/{number}", active=False).id for number in range(20)]
    for subscription in Subscription.objects.all():
        waiting(subscription, 1)
    while dispatch(BATCH):
        pass
    known = ParkedSubscriptions()
    known.refresh()
    assert 3 <= len(known.ids) <= 6
    for _ in range(12):
        known.refresh()
    assert sorted(known.ids) == wanted
    Saga.objects.filter(subscription_id__in=wanted[3:]).update(next_attempt_at=clock.now())
    for _ in range(12):
        known.refresh()
    assert sorted(known.ids) == wanted[:3]


def _first_of_each(rows: Sequence[tuple[int, int, str, int]]) -> bool:
    return all(
        Saga.objects.filter(parked_subscription_id=subscription_id).order_by("id").values_list("id", flat=True)[0] == pk
        for pk, subscription_id, *_ in rows[:5]
    )


@pytest.mark.parametrize("backlog", [30, 90])
def test_when_a_quick_endpoint_falls_silent_no_more_than_its_window_is_open(hub_settings, backlog: int):
    """So workers give back at most these jobs, however many deliveries wait."""
    hub_settings(endpoint_window=20)
    subscription = subscribe()
    waiting(subscription, 60 + backlog)
    flow = Flow()
    while len(attempted()) < 60:
        dispatch(BATCH, flow=flow)
        admit(BATCH, flow)
        flow.note_finished(finish())
    created = Job.objects.count()
    for _ in range(5):
        flow._sweep_at = 0.0
        dispatch(BATCH, flow=flow)
        admit(BATCH, flow)
    assert 0 < Job.objects.count() - created <= 20
    assert len(parked()) == 60 + backlog - Job.objects.count()


def test_waiting_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", logger="webhookhub")
    subscription = subscribe()
    waiting(subscription, 30)
    flow = Flow()
    dispatch(BATCH, flow=flow)
    admit(BATCH, flow)
    assert "deliveries_parked" not in caplog.text
    flow._log_at = flow._sweep_at = 0.0
    admit(BATCH, flow)
    assert caplog.text.count("deliveries_parked") == 1
    flow._sweep_at = 0.0
    admit(BATCH, flow)
    assert caplog.text.count("deliveries_parked") == 1
