"""The router's view of subscriptions, read at most every so often."""

from __future__ import annotations

from datetime import timedelta

import pytest

from subscriptions.cache import RoutableSubscription, SubscriptionCache
from tests.factories import SubscriptionFactory

pytestmark = pytest.mark.django_db


def test_the_view_holds_routable_subscriptions_by_type_with_their_overrides():
    one = SubscriptionFactory.create(max_retry_limit=4, base_delay=timedelta(seconds=2))
    two = SubscriptionFactory.create()
    other = SubscriptionFactory.create(event_type="Order.created")
    SubscriptionFactory.create(active=False)
    SubscriptionFactory.create(verified=False)

    assert SubscriptionCache().by_event_type() == {
        "order.created": [
            RoutableSubscription(one.id, 4, timedelta(seconds=2)),
            RoutableSubscription(two.id, None, None),
        ],
        "Order.created": [RoutableSubscription(other.id, None, None)],
    }


def test_the_view_is_read_once_while_it_is_fresh(hub_settings, django_assert_num_queries):
    hub_settings(subscription_cache=timedelta(hours=1))
    SubscriptionFactory.create()
    cache = SubscriptionCache()

    with django_assert_num_queries(1):
        first = cache.by_event_type()
        assert cache.by_event_type() is first


def test_the_view_is_read_again_when_it_is_old(hub_settings):
    hub_settings(subscription_cache=timedelta(0))
    cache = SubscriptionCache()
    assert cache.by_event_type() == {}

    SubscriptionFactory.create()

    assert set(cache.by_event_type()) == {"order.created"}
