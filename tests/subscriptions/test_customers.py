"""Customers: created once, never changed in their key, disabled and enabled with all their subscriptions."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, transaction

from events.errors import InvalidEvent, UnknownCustomer
from events.intake import NewEvent, publish, publish_many
from events.models import Event
from events.routing import Router
from sagas.models import Saga
from sagas.waiting import waiting_for
from subscriptions import customers, secrets, services, signing
from subscriptions.cache import SubscriptionCache
from subscriptions.endpoints import rate_limits
from subscriptions.models import Customer, Subscription
from subscriptions.services import AlreadySubscribed, InvalidSubscription
from tests.factories import CustomerFactory, EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.auditlog.models import Entry
from webhookhub.validators import InvalidReason

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

URL = "https://127.0.0.1:8443/hook"


def test_put_creates_once_and_renames():
    first = customers.put("acme")
    again = customers.put("acme")
    renamed = customers.put("acme", "Acme Ltd")
    assert (first.created, again.created, renamed.created) == (True, False, False)
    assert first.customer.uid == renamed.customer.uid
    assert Customer.objects.get().name == "Acme Ltd"
    assert customers.put("Acme").created  # another key: letter case counts
    actions = list(Entry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["customer.create", "customer.edit", "customer.create"]


@pytest.mark.parametrize("key", ["", " acme", "a/b", "a b", "-a", "..", "é", "a" * 101, "a\n"])
def test_an_invalid_key_stores_nothing(key: str):
    with pytest.raises(customers.InvalidCustomer, match="key must have 1 to 100"):
        customers.put(key)
    with pytest.raises(InvalidEvent, match="customer must have 1 to 100"):
        publish("order.created", {}, customer=key)
    assert not Customer.objects.exists()
    assert not Event.objects.exists()


def test_an_invalid_name_stores_nothing():
    for name in ("a" * 201, "a\u202e"):
        with pytest.raises(customers.InvalidCustomer, match="name must"):
            customers.put("acme", name)
    assert not Customer.objects.exists()


def test_a_disabled_customer_gets_no_deliveries_until_it_is_enabled():
    customer = customers.put("acme").customer
    subscription = SubscriptionFactory.create(customer_key="acme")
    operators = SubscriptionFactory.create()
    waiting = SagaFactory.create(subscription=subscription, event=EventFactory.create(customer_key="acme"))
    cache = SubscriptionCache()
    assert cache.index(["acme"])["acme"]

    assert customers.disable(customer, reason="unpaid")
    assert not customers.disable(customer, reason="unpaid")

    assert not cache.index(["acme"])["acme"]
    assert not Subscription.objects.get(pk=subscription.pk).is_routable
    assert waiting_for([waiting]) == {waiting.pk: "customer_disabled"}
    event = publish("order.created", {}, customer="acme")
    Router().route(10)
    assert set(Saga.objects.filter(event_id=event.id).values_list("subscription_id", flat=True)) == {operators.pk}

    assert customers.enable(customer, reason="paid")
    assert not customers.enable(customer, reason="paid")
    assert Subscription.objects.routable().filter(pk=subscription.pk).exists()
    entries = Entry.objects.filter(object_type="customer").order_by("id").values_list("action", "reason")
    assert list(entries)[1:] == [("customer.disable", "unpaid"), ("customer.enable", "paid")]


def test_disabling_needs_a_reason():
    with pytest.raises(InvalidReason):
        customers.disable(customers.put("acme").customer, reason=" ")


def test_an_event_of_an_unknown_customer_is_refused_and_the_others_are_stored():
    customers.put("acme")
    results = publish_many(
        [NewEvent("a", 1, customer="acme"), NewEvent("a", 2, customer="nobody"), NewEvent("a", 3), NewEvent("", 4)]
    )
    assert isinstance(results[1], UnknownCustomer)
    assert "PUT /api/v1/customers/nobody" in str(results[1])
    assert isinstance(results[3], InvalidEvent)
    assert list(Event.objects.order_by("id").values_list("customer_key", flat=True)) == ["acme", ""]


def test_with_the_setting_an_unknown_customer_is_created(hub_settings: Callable[..., None]):
    hub_settings(create_customers=True)
    publish_many([NewEvent("a", n, customer=f"customer-{n % 3}") for n in range(6)])
    assert set(Customer.objects.values_list("customer_key", flat=True)) == {"customer-0", "customer-1", "customer-2"}
    assert Event.objects.count() == 6


def test_known_customers_cost_no_statement(committed: None, django_assert_num_queries):
    customers.put("acme")
    publish("order.created", {}, customer="acme")
    with django_assert_num_queries(1):
        publish("order.created", {}, customer="acme")


def test_a_customer_of_a_transaction_that_is_rolled_back_is_not_remembered(committed: None):
    with transaction.atomic():
        customers.put("acme")
        publish("order.created", {}, customer="acme")
        transaction.set_rollback(True)
    with pytest.raises(UnknownCustomer):
        publish("order.created", {}, customer="acme")


def test_the_same_url_and_type_may_be_subscribed_once_per_customer():
    for key in ("acme", "globex"):
        customers.put(key)
    values = {"event_type": "order.created", "callback_url": URL}
    services.create(values)
    services.create({**values, "customer_key": "acme"})
    services.create({**values, "customer_key": "globex"})
    with pytest.raises(AlreadySubscribed):
        services.create({**values, "customer_key": "acme"})


def test_a_subscription_needs_an_enabled_customer_and_keeps_it():
    values = {"event_type": "order.created", "callback_url": URL, "customer_key": "acme"}
    with pytest.raises(InvalidSubscription, match="no enabled customer"):
        services.create(values)
    customer = customers.put("acme").customer
    customers.disable(customer, reason="unpaid")
    with pytest.raises(InvalidSubscription, match="no enabled customer"):
        services.create(values)
    customers.enable(customer, reason="paid")
    subscription = services.create(values)
    with pytest.raises(InvalidSubscription, match="customer_key"):
        services.change(subscription, {"customer_key": "globex"})


@pytest.mark.parametrize("size", [24, 32, 64])
def test_a_secret_from_another_system_is_kept(size: int):
    secret = "whsec_" + base64.b64encode(bytes(range(size))).decode()
    subscription = services.create({"event_type": "order.created", "callback_url": URL, "secret": secret})
    stored = Subscription.objects.get(pk=subscription.pk)
    assert secret not in stored.secret
    assert secrets.reveal(stored) == secret
    assert secret not in Entry.objects.get(action="subscription.create").details
    request = signing.sign(signing.Endpoint(URL, stored.secret, "", None, ""), "id", b"{}", 1)
    expected = hmac.new(bytes(range(size)), b"id.1.{}", "sha256").digest()
    assert f"webhook-signature: v1,{base64.b64encode(expected).decode()}" in request.headers


@pytest.mark.parametrize(
    ("secret", "scheme"),
    [
        ("whsec_" + base64.b64encode(bytes(23)).decode(), "v1"),
        ("whsec_" + base64.b64encode(bytes(65)).decode(), "v1"),
        ("whsec_no base64", "v1"),
        ("secret", "v1"),
        ("", "v1"),
        ("whsk_" + base64.b64encode(bytes(32)).decode(), "v1"),
        ("whsec_" + base64.b64encode(bytes(32)).decode(), "v1a"),
    ],
)
def test_another_secret_is_refused(secret: str, scheme: str):
    values = {"event_type": "order.created", "callback_url": URL, "secret": secret, "signing_scheme": scheme}
    with pytest.raises(InvalidSubscription, match="secret"):
        services.create(values)
    assert not Subscription.objects.exists()


def test_a_customer_does_not_limit_the_rate_of_anothers_endpoint_with_the_same_url():
    own = SubscriptionFactory.create(callback_url=URL, rate_limit=100)
    other = SubscriptionFactory.create(callback_url=URL, customer_key="globex", rate_limit=1)
    SubscriptionFactory.create(callback_url=URL, event_type="b", rate_limit=7, verified=False)
    assert rate_limits() == {own.endpoint_id: 100, other.endpoint_id: 1}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE customers SET customer_key = 'other'",
        "DELETE FROM customers",
        "UPDATE subscriptions SET customer_key = 'other'",
        "UPDATE events SET customer_key = 'other'",
    ],
)
def test_the_database_refuses_to_change_a_customers_key(statement: str):
    CustomerFactory.create(customer_key="acme")
    SubscriptionFactory.create(customer_key="acme")
    EventFactory.create(customer_key="acme")
    with pytest.raises(DatabaseError, match="refused"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
