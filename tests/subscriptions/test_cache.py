"""The router's cache of subscriptions, reloaded after a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from subscriptions.cache import SubscriptionCache
from subscriptions.matching import NO_CUSTOMER, RoutableSubscription
from subscriptions.models import Subscription
from tests.factories import SubscriptionFactory

pytestmark = pytest.mark.django_db


def by_type(cache: SubscriptionCache) -> Mapping[str, Sequence[RoutableSubscription]]:
    """The subscriptions for all customers."""
    return cache.index([])[NO_CUSTOMER]


@pytest.mark.requirement("R3-5.1a")
def test_the_cache_contains_routable_subscriptions_by_event_type():
    one = SubscriptionFactory.create(max_retry_limit=4, base_delay=timedelta(seconds=2))
    two = SubscriptionFactory.create(retry_delays=(5, 300))
    other = SubscriptionFactory.create(event_type="Order.created")
    SubscriptionFactory.create(active=False)
    SubscriptionFactory.create(verified=False)

    assert by_type(SubscriptionCache()) == {
        "order.created": [
            RoutableSubscription(one.id, 4, timedelta(seconds=2), None, endpoint_id=one.endpoint_id),
            RoutableSubscription(two.id, None, None, (5, 300), endpoint_id=two.endpoint_id),
        ],
        "Order.created": [RoutableSubscription(other.id, None, None, None, endpoint_id=other.endpoint_id)],
    }


@pytest.mark.requirement("R3-5.1a")
def test_the_cache_is_kept_while_nothing_changes(django_assert_num_queries):
    SubscriptionFactory.create()
    cache = SubscriptionCache()
    first = by_type(cache)

    with django_assert_num_queries(1):
        assert by_type(cache) is first


@pytest.mark.requirement("R3-5.1a")
@pytest.mark.parametrize(
    "change", [{"active": False}, {"callback_url": "https://127.0.0.1:8443/other"}, {"event_type": "order.changed"}]
)
def test_a_change_reloads_the_cache(change: dict[str, object]):
    SubscriptionFactory.create()
    cache = SubscriptionCache()
    assert set(by_type(cache)) == {"order.created"}

    Subscription.objects.update(**change)  # without save(), like another program

    assert "order.created" not in by_type(cache)


def test_a_new_subscription_reloads_the_cache():
    cache = SubscriptionCache()
    assert by_type(cache) == {}

    SubscriptionFactory.create()

    assert set(by_type(cache)) == {"order.created"}


def test_the_subscriptions_of_a_customer_are_loaded_with_its_first_event(django_assert_num_queries):
    for key in ("", "acme", "globex"):
        SubscriptionFactory.create(customer_key=key)
    cache = SubscriptionCache()
    assert set(cache.index(["acme"])) == {"", "acme"}
    with django_assert_num_queries(1):  # the version
        assert set(cache.index(["acme"])) == {"", "acme"}
    with django_assert_num_queries(2):
        assert set(cache.index(["acme", "globex", "nobody"])) == {"", "acme", "globex", "nobody"}
    with django_assert_num_queries(1):  # that there are none is known, too
        assert cache.index(["nobody"])["nobody"] == {}


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SubscriptionCache, "MAX_SUBSCRIPTIONS", 3)
    for number in range(10):
        SubscriptionFactory.create(customer_key=f"customer-{number}")
    cache = SubscriptionCache()
    for number in range(10):
        key = f"customer-{number}"
        index = cache.index([key])
        assert len(index[key]["order.created"]) == 1
        assert len(index) <= 6


def test_a_change_of_one_customer_is_seen_by_all(django_assert_num_queries):
    own = SubscriptionFactory.create(customer_key="acme")
    cache = SubscriptionCache()
    assert cache.index(["acme", "globex"])["globex"] == {}
    SubscriptionFactory.create(customer_key="globex")
    Subscription.objects.filter(pk=own.pk).update(active=False)
    index = cache.index(["acme", "globex"])
    assert index["acme"] == {}
    assert len(index["globex"]["order.created"]) == 1
