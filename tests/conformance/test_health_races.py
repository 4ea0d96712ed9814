"""Several orchestrators, and people beside them, change the health of one endpoint: each change happens once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sagas.flow import Flow, SettledResult
from subscriptions import health
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import EndpointHealth, Subscription
from tests.factories import SubscriptionFactory
from webhookhub.auditlog.models import Entry
from webhookhub.conf import hub
from webhookhub.db import clock

from .rivals import Rival, elsewhere, rows_are_locked_one_by_one, together

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]

URL = "https://127.0.0.1:8443/raced"
INSERT = "INSERT INTO endpoint_health"
UPDATE = "UPDATE endpoint_health"


def subscribe() -> Subscription:
    subscription: Subscription = SubscriptionFactory.create(callback_url=URL)
    return subscription


def the_endpoint() -> int:
    return Endpoint.objects.get().pk


def row() -> EndpointHealth:
    return EndpointHealth.objects.get()


def test_of_two_orchestrators_that_get_a_410_one_disables_the_endpoint():
    subscribe()
    with Rival(lambda: health.disable_gone(the_endpoint()), before=INSERT) as slow:
        slow.reached()  # it has found no row
        assert health.disable_gone(the_endpoint())
        first = row()
        assert not slow.result()
    assert (row().disabled_at, row().failing_since) == (first.disabled_at, first.failing_since)


def test_concurrent_orchestrators_disable_an_endpoint_once():
    subscription = subscribe()
    assert together(*[lambda: health.disable_gone(the_endpoint())] * 4).count(True) == 1
    subscription.refresh_from_db()
    assert subscription.disabled_at == row().disabled_at


def test_a_success_that_comes_first_prevents_the_disabling():
    subscribe()
    health.note_failing(the_endpoint(), clock.now() - hub().disable_after, "timeout")
    seen = health.load()[the_endpoint()]
    with Rival(lambda: health.disable_failing(the_endpoint(), seen, "timeout"), before=UPDATE) as slow:
        slow.reached()
        assert health.note_success(the_endpoint())
        assert not slow.result()
    assert row().disabled_at is None


def test_a_success_that_comes_later_does_not_enable_the_endpoint():
    subscribe()
    health.note_failing(the_endpoint(), clock.now() - hub().disable_after, "timeout")
    with Rival(lambda: health.note_success(the_endpoint()), before=UPDATE) as slow:
        slow.reached()
        assert health.disable_failing(the_endpoint(), health.load()[the_endpoint()], "timeout")
        assert not slow.result()
    assert row().disabled_at is not None


def test_two_orchestrators_with_the_same_failures_store_the_trouble_once(hub_settings):
    subscription = subscribe()
    hub_settings(breaker_failures=3)
    flows = [Flow(), Flow()]

    def fails(flow: Flow) -> None:
        flow.note_results([SettledResult(0, subscription.id, "http_500", 1)] * 3)

    together(*[lambda flow=flow: fails(flow) for flow in flows])
    assert row().recovered_at is None
    assert row().breaker_open_since is not None
    for flow in flows:
        flow.note_results([SettledResult(0, subscription.id, None, 1)])
    assert row().recovered_at is not None


def test_two_people_enable_an_endpoint_once():
    subscription = subscribe()
    health.disable_gone(the_endpoint())
    results = together(*[lambda: health.enable(Subscription.objects.get(), reason="fixed")] * 2)
    assert sorted(results) == [False, True]
    assert Entry.objects.filter(action="subscription.enable").count() == 1
    subscription.refresh_from_db()
    assert subscription.is_routable


def test_a_subscription_that_is_verified_while_its_endpoint_is_disabled_ends_like_its_endpoint():
    """Whichever commits last holds for both tables."""
    if not rows_are_locked_one_by_one():
        pytest.skip("one writer at a time")
    subscription = subscribe()
    health.note_failing(the_endpoint(), clock.now() - timedelta(days=1), "timeout")
    with Rival(lambda: health.disable_gone(the_endpoint()), before=UPDATE) as slow:
        slow.reached()
        elsewhere(lambda: health.end_disabling(the_endpoint(), health.BY_VERIFICATION))
        slow.result()
    subscription.refresh_from_db()
    assert subscription.disabled_at == row().disabled_at
    assert subscription.disabled_at is not None
