"""Nothing of one customer reaches another, with the same event types and URLs, by any way that creates deliveries."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import DatabaseError, transaction

from deadletters.bulk_requeue import requeue_matching
from deadletters.filters import DeadLetterFilter
from deadletters.models import DeadLetter
from deadletters.requeue import requeue
from events.backfill import backfill
from events.errors import EventConflict
from events.intake import NewEvent, publish, publish_many
from events.models import RoutingInbox
from events.routing import Router
from sagas import requests
from sagas.create import NewSaga, insert_sagas
from sagas.filters import DeliveryFilter
from sagas.models import Saga
from sagas.policy import RetryPolicy
from sagas.redeliver import send_again
from sagas.requests import RequestFilter
from subscriptions import customers, endpoint_services
from subscriptions.models import Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.db import clock
from webhookhub.terminal import Operator

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

URL = "https://127.0.0.1:8443/shared"
TYPE = "order.created"
POLICY = RetryPolicy(3, timedelta(seconds=1))


@pytest.fixture
def subscriptions() -> dict[str, Subscription]:
    """Two customers and the operator have subscribed the same URL to the same type."""
    for key in ("acme", "globex"):
        customers.put(key)
    return {
        key: SubscriptionFactory.create(customer_key=key, event_type=TYPE, callback_url=URL)
        for key in ("acme", "globex", "")
    }


def crossings() -> list[tuple[int, str, str, str]]:
    """The sagas whose customer is not their event's, or not their subscription's."""
    rows = Saga.objects.values_list("id", "customer_key", "event__customer_key", "subscription__customer_key")
    return [row for row in rows if row[1] != row[2] or row[3] not in ("", row[2])]


def deliveries_of(event_id: int) -> set[str]:
    return set(Saga.objects.filter(event_id=event_id).values_list("subscription__customer_key", flat=True))


@pytest.mark.parametrize("hinted", [False, True])
def test_an_event_goes_to_its_customer_and_to_the_operator(subscriptions: dict[str, Subscription], hinted: bool):
    keys = ["acme", "globex", None]
    results = publish_many([NewEvent(TYPE, key, customer=key) for key in keys * 3])
    ids = [result.id for result in results]  # type: ignore[union-attr]
    router = Router()
    if hinted:
        router.route_hinted(ids, 100)
    router.route(100)
    for key, pk in zip(keys * 3, ids, strict=True):
        assert deliveries_of(pk) == {"", key or ""}
    assert not crossings()
    assert not RoutingInbox.objects.exists()


def test_patterns_cross_no_customer(subscriptions: dict[str, Subscription]):
    """Each has everything by patterns, too, at the same URL: each gets its own events, and once."""
    for key in subscriptions:
        for pattern in ("*", "order.*"):
            SubscriptionFactory.create(customer_key=key, event_type=pattern, callback_url=URL)
    for name in (TYPE, "order.paid", "invoice.paid"):
        for customer in ("acme", "globex", None):
            publish(name, customer, customer=customer)
    router = Router()
    while router.route(4):
        pass
    assert Saga.objects.count() == 3 * (2 + 2 + 1)
    assert not crossings()
    endpoints = Saga.objects.values_list("event_id", "endpoint__customer_key")
    assert len(set(endpoints)) == Saga.objects.count()
    assert set(Saga.objects.values_list("customer_key", "endpoint__customer_key")) == {
        *(("acme", "acme"), ("acme", ""), ("globex", "globex"), ("globex", ""), ("", "")),
    }


@pytest.mark.parametrize("setting", ["rate_limit", "max_retry_limit"])
def test_a_change_of_one_customers_endpoint_is_not_the_others(subscriptions: dict[str, Subscription], setting: str):
    before = Subscription.objects.exclude(customer_key="acme").order_by("id").values()
    seen = list(before)
    endpoint = subscriptions["acme"].endpoint
    assert endpoint is not None
    endpoint_services.change(endpoint, {setting: 3, "event_types": ["*"]})
    endpoint_services.vouch(endpoint, reason="r")
    endpoint_services.delete(endpoint)
    assert list(before.all()) == seen
    for key in ("acme", "globex"):
        publish(TYPE, {}, customer=key)
    Router().route(10)
    assert set(Saga.objects.values_list("subscription__customer_key", flat=True)) == {"globex", ""}


def test_letter_case_makes_another_customer(subscriptions: dict[str, Subscription]):
    customers.put("Acme")
    event = publish(TYPE, {}, customer="Acme")
    Router().route(10)
    assert deliveries_of(event.id) == {""}


def test_a_backfill_delivers_only_the_events_of_the_customer(subscriptions: dict[str, Subscription]):
    for key in ("acme", "globex", None):
        publish(TYPE, key, customer=key)
    since = clock.now() - timedelta(hours=1)
    assert backfill(subscriptions["acme"].pk, since).created == 1
    assert backfill(subscriptions[""].pk, since).created == 3
    assert not crossings()
    Router().route(10)
    assert not crossings()
    assert Saga.objects.count() == 5


def test_requeue_and_send_again_keep_the_customer(subscriptions: dict[str, Subscription]):
    event = EventFactory.create(customer_key="acme")
    dead = SagaFactory.create(event=event, subscription=subscriptions["acme"], status="DeadLettered", attempt_count=3)
    letter = DeadLetter.objects.get(saga=dead)
    assert letter.customer_key == "acme"
    requeue([letter.pk], by=Operator(), reason="r")
    completed = SagaFactory.create(
        event=EventFactory.create(customer_key="acme"), subscription=subscriptions["acme"], status="Completed"
    )
    assert send_again(completed, by="anna", reason="r", token="t")
    assert list(Saga.objects.filter(generation=1).values_list("customer_key", flat=True)) == ["acme", "acme"]
    assert not crossings()


def test_a_bulk_requeue_of_a_customer_touches_no_other(subscriptions: dict[str, Subscription]):
    for key in ("acme", "globex"):
        for owner in (key, ""):
            SagaFactory.create(
                event=EventFactory.create(customer_key=key),
                subscription=subscriptions[owner],
                status="DeadLettered",
                attempt_count=3,
            )
    assert {letter.customer_key for letter in DeadLetterFilter(customer="acme").newest_first(None, 10)} == {"acme"}
    result = requeue_matching(DeadLetterFilter(owner="acme"), by=Operator(), reason="r", limit=10)
    assert result.count == 1
    new = Saga.objects.get(generation=1)
    assert (new.customer_key, new.subscription.customer_key) == ("acme", "acme")


def test_a_request_for_a_whole_endpoint_covers_one_customer(subscriptions: dict[str, Subscription]):
    chosen = requests.of_subscription(subscriptions["acme"], whole_endpoint=True)
    assert chosen.subscription_ids == {subscriptions["acme"].pk}
    assert requests.of_subscription(subscriptions[""], whole_endpoint=True).subscription_ids == {subscriptions[""].pk}


def test_filters_by_customer_and_by_owner(subscriptions: dict[str, Subscription]):
    for key in ("acme", "globex", ""):
        event = EventFactory.create(customer_key=key)
        for owner in {key, ""}:
            SagaFactory.create(event=event, subscription=subscriptions[owner])
    rows = list(Saga.objects.all())
    own = DeliveryFilter(owner="acme")
    assert [(saga.customer_key, saga.subscription_id) for saga in own.matching(rows)] == [
        ("acme", subscriptions["acme"].pk)
    ]
    assert not own.is_indexed
    of_customer = DeliveryFilter(customer="acme")
    assert of_customer.is_indexed
    found = of_customer.newest_first(1, None, 10)
    assert {saga.customer_key for saga in found} == {"acme"}
    assert len(found) == 2
    stored = RequestFilter.from_json(json.dumps(RequestFilter(owner="acme", status="Pending").as_json()))
    assert len(stored.matching(rows)) == 1
    assert len(RequestFilter(customer="acme").matching(rows)) == 2


def test_the_hubs_own_events_go_to_the_operator_only():
    """Workflows and endpoints may concern several customers."""
    customers.put("acme")
    for key in ("acme", ""):
        SubscriptionFactory.create(customer_key=key, event_type="saga.completed")
    [event] = publish_many([NewEvent("saga.completed", {}, "hub")], by_hub=True)
    Router().route(10)
    assert deliveries_of(event.id) == {""}  # type: ignore[union-attr]


def test_a_repeated_external_id_of_another_customer_is_a_conflict(subscriptions: dict[str, Subscription]):
    first = publish(TYPE, {}, source="shop", external_id="1", customer="acme")
    assert publish(TYPE, {}, source="shop", external_id="1", customer="acme").id == first.id
    for other in ("globex", None):
        with pytest.raises(EventConflict):
            publish(TYPE, {}, source="shop", external_id="1", customer=other)


@pytest.mark.parametrize(
    ("of_event", "of_subscription", "claimed"),
    [
        ("acme", "globex", "acme"),
        ("acme", "globex", "globex"),
        ("acme", "globex", ""),
        ("", "acme", "acme"),
        ("", "acme", ""),
        ("acme", "", ""),
        ("acme", "acme", ""),
        ("acme", "acme", "Acme"),
    ],
)
def test_the_database_refuses_a_saga_that_crosses(
    subscriptions: dict[str, Subscription], of_event: str, of_subscription: str, claimed: str
):
    event = EventFactory.create(customer_key=of_event)
    new = NewSaga(event.pk, subscriptions[of_subscription].pk, 0, POLICY, claimed)
    with pytest.raises(DatabaseError, match=r"has its customer|of its customer or of none"), transaction.atomic():
        insert_sagas([new], 10)
    with pytest.raises(DatabaseError, match=r"has its customer|of its customer or of none"), transaction.atomic():
        insert_sagas([new, NewSaga(event.pk, subscriptions[of_subscription].pk, 0, POLICY, claimed)] * 2, 10)
    assert not Saga.objects.exists()


def test_the_database_refuses_another_customer_on_stored_rows(subscriptions: dict[str, Subscription]):
    saga = SagaFactory.create(
        event=EventFactory.create(customer_key="acme"),
        subscription=subscriptions["acme"],
        status="DeadLettered",
        attempt_count=3,
    )
    open_saga = SagaFactory.create(event=EventFactory.create(customer_key="acme"), subscription=subscriptions["acme"])
    for rows in (
        Saga.objects.filter(pk=saga.pk),
        Saga.objects.filter(pk=open_saga.pk),
        DeadLetter.objects.filter(saga=saga),
    ):
        with pytest.raises(DatabaseError, match="refused"), transaction.atomic():
            rows.update(customer_key="globex")


def test_the_database_refuses_a_dead_letter_of_another_customer(subscriptions: dict[str, Subscription]):
    event = EventFactory.create(customer_key="acme")
    saga = SagaFactory.create(event=event, subscription=subscriptions["acme"], status="DeadLettered", attempt_count=3)
    letter = DeadLetter.objects.get(saga=saga)
    letter.pk, letter.customer_key = None, "globex"
    with pytest.raises(DatabaseError, match="customer of its saga"), transaction.atomic():
        letter.save(force_insert=True)
