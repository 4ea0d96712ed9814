"""However many routers and people act at once, an event goes once to an endpoint, and its subscriptions stay equal."""

from __future__ import annotations

from datetime import timedelta

import pytest

from events.intake import publish
from events.routing import Router
from sagas.create import NewSaga, insert_sagas
from sagas.models import Saga
from sagas.policy import RetryPolicy
from subscriptions import endpoint_services, secrets, services
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription
from tests.factories import EventFactory, SubscriptionFactory
from tests.webhookhub.integrity.support import audit
from webhookhub.integrity.checks import endpoints

from .rivals import Rival, together

pytestmark = pytest.mark.every_engine

URL = "https://127.0.0.1:8443/hook"
PATTERNS = ("order.created", "order.*", "*")
POLICY = RetryPolicy(3, timedelta(seconds=1))


@pytest.fixture(autouse=True)
def _committed(committed: None) -> None:
    pass


def subscribe(*patterns: str) -> list[Subscription]:
    return [SubscriptionFactory.create(event_type=name, callback_url=URL) for name in patterns]


def new_saga(event_id: int, subscription: Subscription) -> NewSaga:
    return NewSaga(event_id, subscription.pk, 0, POLICY, "", subscription.endpoint_id)


@pytest.mark.parametrize("count", [1, 3])
def test_of_two_routers_that_choose_different_subscriptions_one_delivers(count: int):
    """As two routers do whose caches are from before and after the first subscription was deleted."""
    first, second, _ = subscribe(*PATTERNS)
    ids = [EventFactory.create().pk for _ in range(count)]
    with Rival(
        lambda: insert_sagas([new_saga(pk, second) for pk in ids], 10), before="INSERT INTO webhook_delivery_sagas"
    ) as slow:
        slow.reached()
        assert len(insert_sagas([new_saga(pk, first) for pk in ids], 10)) == count
        assert slow.result() == []
    assert set(Saga.objects.values_list("subscription_id", flat=True)) == {first.pk}
    assert Saga.objects.count() == count


def test_a_router_that_dies_after_some_sagas_is_repeated_with_another_subscription():
    """Routed, not removed from the inbox, and the subscription that delivered is gone."""
    first, second, _ = subscribe(*PATTERNS)
    events = [publish("order.created", n) for n in range(3)]
    insert_sagas([new_saga(events[1].id, first)], 10)
    Subscription.objects.filter(pk=first.pk).update(deleted_at="2026-01-01T00:00:00Z", active=False)
    Router().route(10)
    delivered = dict(Saga.objects.values_list("event_id", "subscription_id"))
    assert delivered == {events[0].id: second.pk, events[1].id: first.pk, events[2].id: second.pk}


@pytest.mark.mysql_family  # SQLite has no concurrent writers
def test_concurrent_changes_leave_every_copy_equal():
    subscriptions = subscribe(*PATTERNS)
    [endpoint] = Endpoint.objects.all()

    def change(limit: int) -> None:
        endpoint_services.change(Endpoint.objects.get(pk=endpoint.pk), {"rate_limit": limit})

    def leave() -> None:
        services.change(Subscription.objects.get(pk=subscriptions[2].pk), {"description": "its own"})

    def rotate() -> None:
        secrets.rotate(Endpoint.objects.get(pk=endpoint.pk))

    together(lambda: change(3), lambda: change(5), leave, rotate)
    assert Endpoint.objects.count() == 2
    assert_equal()


def assert_equal() -> None:
    assert audit(*(check.name for check in endpoints.CHECKS)) == {}
