"""One routing step: each waiting event becomes one saga per subscription that wants it."""

from __future__ import annotations

import pytest

from events import routing
from events.intake import NewEvent, publish, publish_many
from events.models import Event, RoutingInbox
from events.routing import Router, RouterStep
from sagas.models import Saga
from subscriptions.models import Subscription
from tests.factories import EventFactory, SubscriptionFactory

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]


@pytest.mark.requirement("R3-2.1a", "R3-2.3d", "R3-3.2a", "R3-6b")
def test_each_matching_subscription_gets_one_saga_and_the_inbox_is_emptied():
    wanted = [SubscriptionFactory.create(), SubscriptionFactory.create()]
    SubscriptionFactory.create(event_type="order.cancelled")
    SubscriptionFactory.create(event_type="Order.created")
    SubscriptionFactory.create(active=False)
    SubscriptionFactory.create(verified=False)
    published = publish("order.created", {})

    assert Router().route(10) == 1

    sagas = Saga.objects.values_list("event_id", "subscription_id", "generation", "status", "attempt_count")
    assert set(sagas) == {(published.id, subscription.id, 0, "Pending", 0) for subscription in wanted}
    assert not RoutingInbox.objects.exists()


def test_an_event_without_subscription_is_kept_without_a_saga_and_leaves_the_inbox():
    SubscriptionFactory.create()
    publish("order.unwanted", {})

    assert Router().route(10) == 1

    assert Event.objects.count() == 1
    assert not Saga.objects.exists()
    assert not RoutingInbox.objects.exists()


def test_an_empty_inbox_returns_0():
    assert Router().route(10) == 0


@pytest.mark.requirement("R1-2.3a")
@pytest.mark.requirement("R3-3.4d")
def test_routing_an_event_again_creates_no_second_saga():
    SubscriptionFactory.create()
    published = publish("order.created", {})
    Router().route(10)
    before = Saga.objects.get()

    RoutingInbox.objects.create(event_id=published.id, event_type="order.created")
    assert Router().route(10) == 1

    after = Saga.objects.get()
    assert (after.id, after.updated_at) == (before.id, before.updated_at)
    assert not RoutingInbox.objects.exists()


def test_a_batch_routes_at_most_its_size_and_the_oldest_first():
    SubscriptionFactory.create()
    ids = [result.id for result in publish_many([NewEvent("order.created", n) for n in range(5)])]  # type: ignore[union-attr]

    assert Router().route(2) == 2

    assert set(Saga.objects.values_list("event_id", flat=True)) == set(ids[:2])
    assert set(RoutingInbox.objects.values_list("event_id", flat=True)) == set(ids[2:])


@pytest.mark.requirement("R4-4.1c")
def test_one_transaction_creates_a_limited_number_of_sagas_but_routes_at_least_one_event(monkeypatch):
    monkeypatch.setattr(routing, "MAX_NEW_SAGAS", 5)
    for _ in range(3):
        SubscriptionFactory.create()
    for _ in range(7):
        SubscriptionFactory.create(event_type="popular")
    publish_many([NewEvent("order.created", n) for n in range(3)])
    publish("popular", {})
    router = Router()

    counts = []
    while router.route(100):
        counts.append(Saga.objects.count())

    assert counts == [3, 6, 9, 16]
    assert not RoutingInbox.objects.exists()


def test_events_without_subscription_do_not_count_towards_the_limit(monkeypatch):
    monkeypatch.setattr(routing, "MAX_NEW_SAGAS", 1)
    SubscriptionFactory.create()
    publish_many([NewEvent("order.unwanted", n) for n in range(5)])
    publish("order.created", {})

    assert Router().route(100) == 6
    assert Saga.objects.count() == 1


def test_a_subscription_older_than_the_event_is_never_missed():
    router = Router()
    publish("order.created", 0)
    router.route(10)
    SubscriptionFactory.create()
    publish("order.created", 1)

    router.route(10)

    assert Saga.objects.count() == 1


@pytest.mark.requirement("R3-2.3d")
def test_a_change_of_a_subscription_takes_effect_at_once():
    router = Router()
    subscription = SubscriptionFactory.create(active=False)
    publish("order.created", 1)
    router.route(10)
    assert not Saga.objects.exists()

    Subscription.objects.filter(id=subscription.id).update(active=True)
    publish("order.created", 2)
    router.route(10)
    assert Saga.objects.count() == 1

    Subscription.objects.filter(id=subscription.id).update(verified=False)
    publish("order.created", 3)
    router.route(10)
    assert Saga.objects.count() == 1


@pytest.mark.requirement("R3-3.4a", "R3-3.4b")
def test_routing_changes_neither_events_nor_subscriptions():
    SubscriptionFactory.create()
    publish("order.created", {"n": 1})
    before = list(Event.objects.values()), list(Subscription.objects.values())

    Router().route(10)

    assert (list(Event.objects.values()), list(Subscription.objects.values())) == before


def test_a_burst_of_one_type_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch):
    """Without hints: they may be lost."""
    monkeypatch.setattr(routing, "LOOK_AHEAD", 20)
    for event_type in ("burst.0", "single.0", "single.1"):
        SubscriptionFactory(event_type=event_type)
    EventFactory.create_batch(30, event_type="burst.0")
    single = EventFactory(event_type="single.0")
    EventFactory.create_batch(30, event_type="burst.0")
    last = EventFactory(event_type="single.1")
    step = RouterStep()
    step._poll_soon.take()
    turns: list[set[str]] = []
    while not turns or len(turns[-1]) < 3:
        step.run(5)
        turns.append(set(Saga.objects.values_list("event__event_type", flat=True)))
        assert len(turns) < 8, turns
    assert Saga.objects.filter(event__in=[single, last]).count() == 2
    assert Saga.objects.count() < 50
    while RoutingInbox.objects.exists():
        step.run(5)
    assert Saga.objects.count() == 62


def test_a_customers_burst_does_not_delay_other_customers():
    SubscriptionFactory(event_type="order.created")
    EventFactory.create_batch(30, event_type="order.created", customer_key="busy")
    other: Event = EventFactory.create(event_type="order.created", customer_key="calm")
    RouterStep().run(5)
    assert Saga.objects.filter(event=other).exists()
    assert Saga.objects.count() == 6
