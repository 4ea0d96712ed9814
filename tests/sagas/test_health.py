"""What results say about an endpoint: when it is recorded as failing, disabled, and recovered."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.routing import Router
from jobs.lease import lease
from jobs.models import Job
from jobs.report import Report, report
from sagas import settle
from sagas.dispatch import dispatch
from sagas.flow import Flow, SettledResult
from sagas.models import PARKED, Saga
from sagas.orchestrator import Orchestrator
from subscriptions import health
from subscriptions.cache import SubscriptionCache, versions
from subscriptions.models import EndpointHealth, Subscription, endpoint_id
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.conf import hub
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

URL = "https://127.0.0.1:8443/troubled"


@pytest.fixture
def flow() -> Flow:
    return Flow()


@pytest.fixture
def subscription() -> Subscription:
    subscription: Subscription = SubscriptionFactory.create(callback_url=URL)
    return subscription


def fails(flow: Flow, subscription: Subscription, code: str = "http_500", count: int = 1) -> None:
    flow.note_results([SettledResult(0, subscription.id, code, 1)] * count)


def succeeds(flow: Flow, subscription: Subscription) -> None:
    flow.note_results([SettledResult(0, subscription.id, None, 1)])


def row() -> EndpointHealth:
    return EndpointHealth.objects.get(callback_url=URL)


def begin(subscription: Subscription, ago: timedelta) -> None:
    assert health.note_failing(endpoint_id(subscription), clock.now() - ago, "timeout")


def test_healthy_results_and_single_failures_cost_no_statement(flow: Flow, subscription: Subscription):
    succeeds(flow, subscription)
    fails(flow, subscription)
    with CaptureQueriesContext(connection) as captured:
        for _ in range(10):
            succeeds(flow, subscription)
            fails(flow, subscription)
    assert len(captured) == 0
    assert not EndpointHealth.objects.exists()


def test_a_trouble_is_stored_when_it_has_lasted_for_a_while(flow: Flow, subscription: Subscription, hub_settings):
    hub_settings(disable_after=timedelta(microseconds=10))  # a part of it passes between two results
    fails(flow, subscription, "timeout")
    before = clock.now()
    while clock.now() == before:  # the embedded database's clock counts milliseconds
        pass
    fails(flow, subscription)
    assert row().last_error_code == "http_500"
    assert row().failing_since < row().updated_at


def test_an_open_breaker_stores_the_trouble_at_once(flow: Flow, subscription: Subscription, hub_settings):
    hub_settings(breaker_failures=3)
    flow = Flow()
    fails(flow, subscription, count=2)
    assert not EndpointHealth.objects.exists()
    fails(flow, subscription)
    assert row().breaker_open_since is not None
    succeeds(flow, subscription)
    assert (row().breaker_open_since, row().recovered_by) == (None, "success")


def test_a_breaker_that_opens_later_is_stored_too(subscription: Subscription, hub_settings):
    hub_settings(breaker_failures=3)
    flow = Flow()
    begin(subscription, timedelta(minutes=5))
    fails(flow, subscription, count=3)
    assert row().breaker_open_since is not None


def test_a_success_ends_a_trouble_that_another_process_has_stored(flow: Flow, subscription: Subscription):
    begin(subscription, timedelta(hours=1))
    flow.sweep()  # a sweep
    succeeds(flow, subscription)
    assert row().recovered_at is not None
    assert row().disabled_at is None
    # The next trouble begins anew.
    begin(subscription, timedelta(0))
    assert row().recovered_at is None


def test_a_success_of_another_process_is_learned_by_the_sweep(subscription: Subscription, hub_settings):
    hub_settings(disable_after=timedelta(seconds=1))
    one, other = Flow(), Flow()
    fails(one, subscription)
    begin(subscription, timedelta(seconds=0.5))
    succeeds(other, subscription)
    one._sweep_at = 0.0
    one.admissions(1)
    fails(one, subscription)
    assert row().recovered_at is not None, "the failures before the success do not count"


@pytest.mark.parametrize(("percent", "stage"), [(49, 0), (51, 50), (81, 80)])
def test_stages_are_stored_by_the_next_failure(flow: Flow, subscription: Subscription, percent: int, stage: int):
    begin(subscription, hub().disable_after * percent / 100)
    fails(flow, subscription)
    assert (row().stage, row().disabled_at) == (stage, None)


def test_an_endpoint_without_success_for_too_long_is_disabled(flow: Flow, subscription: Subscription):
    begin(subscription, hub().disable_after)
    fails(flow, subscription)
    assert (row().disabled_reason, row().stage, row().last_error_code) == ("no_success", 100, "http_500")
    subscription.refresh_from_db()
    assert not subscription.is_routable


def test_never_by_time_if_that_is_switched_off(flow: Flow, subscription: Subscription, hub_settings):
    hub_settings(disable_after=timedelta(0))
    begin(subscription, timedelta(days=1000))
    fails(flow, subscription)
    assert (row().stage, row().disabled_at) == (0, None)


@pytest.mark.parametrize("code", ["lease_expired", "signing_error"])
def test_the_hubs_own_trouble_does_not_count(flow: Flow, subscription: Subscription, code: str):
    begin(subscription, hub().disable_after)
    fails(flow, subscription, code)
    assert row().disabled_at is None


def test_a_410_disables_the_endpoint_of_all_its_subscriptions_at_once(flow: Flow, subscription: Subscription):
    other = SubscriptionFactory.create(callback_url=URL, event_type="order.paid")
    unrelated = SubscriptionFactory.create(callback_url=f"{URL}/2")
    before = versions()
    fails(flow, subscription, "http_410", count=5)
    assert (row().disabled_reason, row().stage) == ("gone", 100)
    assert set(Subscription.objects.routable()) == {unrelated}
    other.refresh_from_db()
    assert other.disabled_at == row().disabled_at
    assert other.updated_at == row().updated_at
    assert versions().subscriptions > before.subscriptions


def test_a_410_is_recorded_before_its_result_is_settled(subscription: Subscription, monkeypatch: pytest.MonkeyPatch):
    """A process that ends in between leaves the result to the next one."""

    def dies(settled: object) -> None:
        raise SystemExit

    SagaFactory.create(subscription=subscription)
    dispatch(100)
    [job] = lease("worker", 100)
    report("worker", [Report(job, "http_410", 410)])
    with monkeypatch.context() as dying:
        dying.setattr(settle, "_mark", dies)
        with pytest.raises(SystemExit):
            Orchestrator().run(100)
    first = EndpointHealth.objects.first()
    assert first is not None
    assert (first.callback_url, first.disabled_reason, first.stage) == (URL, "gone", 100)
    assert not Job.objects.filter(settled_at__isnull=False).exists()

    Orchestrator().run(100)
    assert Job.objects.filter(settled_at__isnull=False).exists()
    assert (row().disabled_at, row().failing_since) == (first.disabled_at, first.failing_since)


def test_a_late_success_does_not_enable_it(flow: Flow, subscription: Subscription):
    fails(flow, subscription, "http_410")
    succeeds(flow, subscription)
    assert row().disabled_at is not None


def test_a_disabled_endpoint_gets_no_new_deliveries_and_its_open_ones_are_parked(
    flow: Flow, subscription: Subscription
):
    cache = SubscriptionCache()
    assert cache.index([])[""]
    waiting = SagaFactory.create(subscription=subscription)
    fails(flow, subscription, "http_410")
    assert not cache.index([])[""]
    EventFactory.create()
    Router().route(100)
    assert Saga.objects.count() == 1
    dispatch(100, flow=flow)
    waiting.refresh_from_db()
    assert waiting.next_attempt_at == PARKED
    assert not Job.objects.exists()


def test_a_worker_does_not_send_to_an_endpoint_that_was_disabled_since(flow: Flow, subscription: Subscription):
    SagaFactory.create(subscription=subscription)
    dispatch(100, flow=flow)
    fails(flow, subscription, "http_410")
    [job] = lease("w", 10)
    assert job.disabled_at is not None


def test_an_operator_enables_it_for_all_subscriptions(flow: Flow, subscription: Subscription):
    SubscriptionFactory.create(callback_url=URL, event_type="order.paid")
    waiting = SagaFactory.create(subscription=subscription)
    fails(flow, subscription, "http_410")
    dispatch(100, flow=flow)
    assert health.enable(subscription, reason="fixed")
    assert not health.enable(subscription, reason="fixed"), "nothing to do"
    assert Subscription.objects.routable().count() == 2
    assert (row().recovered_by, row().stage, row().disabled_reason) == ("operator", 0, "")
    flow._sweep_at = 0.0
    flow.sweep()
    assert flow.admissions(10), "its parked delivery may go"
    waiting.refresh_from_db()


def test_another_410_disables_it_again(flow: Flow, subscription: Subscription):
    fails(flow, subscription, "http_410")
    first = row()
    health.enable(subscription, reason="fixed")
    flow._sweep_at = 0.0
    flow.sweep()
    fails(flow, subscription, "http_410")
    assert row().disabled_at is not None
    assert row().failing_since > first.failing_since, "a new trouble"
    assert row().recovered_at is None


def test_another_url_is_not_disabled(flow: Flow, subscription: Subscription):
    fails(flow, subscription, "http_410")
    Subscription.objects.filter(id=subscription.id).update(callback_url=f"{URL}/new")
    subscription.refresh_from_db()
    assert (subscription.disabled_at, subscription.verified) == (None, False)


@pytest.mark.parametrize(
    ("hours", "stage"), [(0, 0), (59.9, 0), (60, 50), (95.9, 50), (96, 80), (119.9, 80), (120, 100), (9999, 100)]
)
def test_stages(hours: float, stage: int):
    assert health.stage_of(timedelta(hours=hours), timedelta(days=5)) == stage
    assert health.stage_of(timedelta(hours=hours), timedelta(0)) == 0
