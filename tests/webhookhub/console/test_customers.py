"""Customers in the console: who may see, create and disable them, and lists of one customer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from sagas.models import DeliveryRequest
from subscriptions import customers
from subscriptions.models import Customer, Subscription
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps, rows

pytestmark = pytest.mark.django_db

Member = Callable[[str], Client]
NAME = "subscriptions_customer"


@pytest.fixture
def deliveries() -> dict[str, Any]:
    """One delivery with a dead letter of each customer, and one without a customer, of the same URL."""
    found = {}
    for key in ("acme", "globex", ""):
        if key:
            customers.put(key)
        subscription = SubscriptionFactory.create(customer_key=key, callback_url="https://127.0.0.1:1025/shared")
        event = EventFactory.create(customer_key=key)
        found[key] = SagaFactory.create(event=event, subscription=subscription, status="DeadLettered", attempt_count=3)
        legal_steps.dead_letter(found[key])
    return found


def listed(client: Client, name: str, **query: str) -> set[str]:
    response = client.get(rows.listing(name), query)
    assert response.status_code == 200
    return {row.customer_key for row in response.context["cl"].result_list}


@pytest.mark.parametrize("name", ["sagas_saga", "events_event", "subscriptions_subscription"])
def test_a_list_shows_one_customer(viewer: Client, deliveries: dict[str, Any], name: str):
    assert listed(viewer, name) == {"acme", "globex", ""}
    assert listed(viewer, name, customer_key="acme") == {"acme"}
    assert listed(viewer, name, customer_key="nobody") == set()


def test_dead_letters_are_filtered_by_customer(requeuer: Client, deliveries: dict[str, Any]):
    assert listed(requeuer, "deadletters_deadletter", customer="acme") == {"acme"}
    page = requeuer.get(reverse("admin:deadletters_deadletter_requeue_matching") + "?customer=acme").content.decode()
    assert page.count("/admin/deadletters/deadletter/") >= 1
    assert "globex" not in page


def test_deliveries_are_abandoned_by_customer(superuser: Client, deliveries: dict[str, Any]):
    for key in ("acme", "globex"):
        subscription = Subscription.objects.get(customer_key=key)
        SagaFactory.create(event=EventFactory.create(customer_key=key), subscription=subscription)
    url = reverse("admin:sagas_saga_request", args=["abandon"]) + "?customer=acme"
    page = superuser.get(url)
    assert page.context["preview"].waiting == 1
    superuser.post(url, {"reason": "r", "token": "t"})
    assert json.loads(DeliveryRequest.objects.get().conditions) == {"customer": "acme"}


def test_a_customers_page_shows_its_own_subscriptions_only(member: Member, deliveries: dict[str, Any]):
    customer = Customer.objects.get(customer_key="acme")
    page = member("support").get(rows.change(NAME, customer.pk)).content.decode()
    own = Subscription.objects.get(customer_key="acme")
    assert f"/admin/subscriptions/subscription/{own.pk}/change/" in page
    for other in Subscription.objects.exclude(pk=own.pk):
        assert f"/admin/subscriptions/subscription/{other.pk}/change/" not in page
    assert reverse(f"admin:{NAME}_disable", args=[customer.pk]) not in page


@pytest.mark.parametrize(("group", "may"), [("support", False), ("auditors", False), ("operations", True)])
def test_only_operations_create_and_disable_customers(member: Member, group: str, may: bool):
    customer = customers.put("acme").customer
    client = member(group)
    created = client.post(rows.add(NAME), {"customer_key": "globex", "name": "Globex"})
    assert (created.status_code == 302) is may
    assert Customer.objects.filter(customer_key="globex").exists() is may
    response = client.post(reverse(f"admin:{NAME}_disable", args=[customer.pk]), {"reason": "unpaid"})
    assert response.status_code == (302 if may else 403)
    customer.refresh_from_db()
    assert (customer.disabled_at is not None) is may


def test_nobody_changes_a_customers_key_or_deletes_it(superuser: Client):
    customer = customers.put("acme").customer
    assert superuser.post(rows.change(NAME, customer.pk), {"customer_key": "other"}).status_code == 403
    assert superuser.post(rows.delete(NAME, customer.pk), {"post": "yes"}).status_code == 403
    assert Customer.objects.get().customer_key == "acme"


@pytest.mark.parametrize("key", ["", "a b", "acme"])
def test_the_form_names_a_wrong_key(superuser: Client, key: str):
    customers.put("acme")
    response = superuser.post(rows.add(NAME), {"customer_key": key})
    assert response.status_code == 200
    assert "customer_key" in response.context["adminform"].form.errors
    assert Customer.objects.count() == 1


def test_a_subscription_is_created_for_an_enabled_customer(superuser: Client):
    values = {"event_type": "order.created", "callback_url": "https://127.0.0.1:1025/", "signing_scheme": "v1"}
    unknown = superuser.post(rows.add("subscriptions_subscription"), {**values, "customer_key": "acme"})
    assert unknown.context["adminform"].form.errors["customer_key"] == ["There is no enabled customer with this key."]
    customers.put("acme")
    superuser.post(rows.add("subscriptions_subscription"), {**values, "customer_key": "acme"})
    subscription = Subscription.objects.get()
    assert subscription.customer_key == "acme"
    page = superuser.get(rows.change("subscriptions_subscription", subscription.pk)).content.decode()
    assert 'name="customer_key"' not in page


def test_the_search_finds_a_customer_by_its_key(viewer: Client, member: Member):
    customers.put("acme")
    url = reverse("admin:search") + "?q=acme"
    assert "/admin/subscriptions/customer/" in member("support").get(url).content.decode()
    assert "/admin/subscriptions/customer/" not in viewer.get(url).content.decode()
