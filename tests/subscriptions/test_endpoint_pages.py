"""Endpoints in the console: who may see them, and what a person does to them, with a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from subscriptions import health
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription, endpoint_id
from tests.factories import CustomerFactory, SubscriptionFactory
from webhookhub.auditlog.models import Entry

pytestmark = pytest.mark.django_db
URL = "https://127.0.0.1:8443/hook?token=secret"
VIEW = ("view_endpoint", "view_subscription")


@pytest.fixture
def subscription() -> Subscription:
    first: Subscription = SubscriptionFactory.create(callback_url=URL, customer_key="acme", verified=False)
    SubscriptionFactory.create(callback_url=URL, customer_key="acme", event_type="invoice.*", verified=False)
    return first


def page(subscription: Subscription, name: str = "change") -> str:
    return reverse(f"admin:subscriptions_endpoint_{name}", args=[subscription.endpoint_id])


def text(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, response.content
    return response.content.decode()


def test_the_page_shows_subscriptions_and_state_and_no_secret(staff: Callable[..., Client], subscription: Subscription):
    client = staff("anna", *VIEW)
    health.disable_gone(endpoint_id(subscription))
    shown = text(client, page(subscription))
    for part in ("order.created", "invoice.*", "acme", "410", "not verified"):
        assert part in shown
    assert "token=secret" not in shown
    listed = text(client, reverse("admin:subscriptions_endpoint_changelist"))
    assert "invoice.*, order.created" in listed
    assert "token=secret" not in listed


def test_the_customers_page_leads_to_its_endpoints(superuser: Client, subscription: Subscription):
    customer = CustomerFactory.create(customer_key="acme")
    assert page(subscription) in text(superuser, reverse("admin:subscriptions_customer_change", args=[customer.pk]))


@pytest.mark.parametrize(
    ("name", "permission", "values"),
    [
        ("vouch", "vouch_endpoint", {"verified": True, "vouched_by": "anna", "vouch_reason": "because"}),
        ("pause", "change_subscription", {"active": False}),
        ("resume", "change_subscription", {"active": True}),
        ("delete", "change_subscription", {"active": False}),
    ],
)
def test_an_action_needs_its_permission_and_a_reason(
    staff: Callable[..., Client], subscription: Subscription, name: str, permission: str, values: dict[str, object]
):
    path = page(subscription, name)
    assert staff("bob", *VIEW).post(path, {"reason": "because"}).status_code == 403
    client = staff("anna", *VIEW, permission)
    assert client.get(path).status_code == 200
    assert client.post(path, {"reason": ""}).status_code == 200
    assert not Entry.objects.filter(object_type="endpoint").exists()
    assert client.post(path, {"reason": "because"}).status_code == 302
    endpoint = Endpoint.objects.get()
    assert {key: getattr(endpoint, key) for key in values} == values
    assert set(Subscription.objects.values_list("active", flat=True)) == {endpoint.active}
    if name != "resume":  # it was active before
        assert Entry.objects.get(object_type="endpoint").reason == "because"


def test_a_deleted_endpoint_is_in_no_list(superuser: Client, subscription: Subscription):
    superuser.post(page(subscription, "delete"), {"reason": "because"})
    for name in ("endpoint", "subscription"):
        assert "127.0.0.1:8443" not in text(superuser, reverse(f"admin:subscriptions_{name}_changelist"))
    assert superuser.get(page(subscription)).status_code == 302  # to the overview, which says that it does not exist
    assert superuser.get(page(subscription, "pause")).status_code == 404
