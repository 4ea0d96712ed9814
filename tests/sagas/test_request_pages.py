"""The console's pages that request something for deliveries, and the list of requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from sagas.apply_requests import apply_requests
from sagas.models import KINDS, DeliveryRequest, Saga
from sagas.requests import MAX_SELECTED
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from webhookhub.auditlog.models import Entry
from webhookhub.console import format
from webhookhub.db import clock

pytestmark = pytest.mark.django_db

VIEW = ("view_saga", "view_deliveryrequest", "view_subscription")
ALL = (*VIEW, "send_now", "abandon", "send_again", "bulk_request", "requeue_deadletter")
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def as_user() -> Callable[..., Client]:
    def log_in(*permissions: str) -> Client:
        user = User.objects.create_user("ada", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def ada(as_user: Callable[..., Client]) -> Client:
    return as_user(*ALL)


def delivery(status: str = "Pending", **values: Any) -> Saga:
    values = {"next_attempt_at": clock.now() + timedelta(hours=1), **values}
    saga: Saga = SagaFactory.create(status=status, **values)
    return saga


def url(kind: str, **query: Any) -> str:
    return reverse("admin:sagas_saga_request", args=[kind], query=query)


def submit(client: Client, page: str, reason: str = "obsolete", **fields: Any) -> Any:
    """Open the page and send its form."""
    form = client.get(page).context["form"]
    return client.post(page, {"token": form["token"].value(), "reason": reason, **fields}, follow=True)


@pytest.mark.parametrize(
    ("kind", "status"), [("send_now", "Pending"), ("abandon", "Pending"), ("send_again", "Completed")]
)
def test_a_delivery_is_requested_from_its_page(ada: Client, kind: str, status: str):
    saga = delivery(status)
    page = url(kind, ids=saga.pk)
    assert f'href="{page}"' in ada.get(format.page_url(Saga, saga.pk)).content.decode()

    response = submit(ada, page)

    request = DeliveryRequest.objects.get()
    assert (request.kind, request.saga_id, request.requested_by, request.reason) == (kind, saga.pk, "ada", "obsolete")
    assert response.redirect_chain == [(format.page_url(Saga, saga.pk), 302)]
    assert Entry.objects.get(action=f"saga.{kind}").via == "console"
    shown = response.content.decode()
    assert format.page_url(DeliveryRequest, request.pk) in shown
    apply_requests(10)
    assert "by ada" in ada.get(format.page_url(Saga, saga.pk)).content.decode()


def test_a_page_that_is_sent_twice_makes_one_request(ada: Client):
    saga = delivery()
    page = url("abandon", ids=saga.pk)
    token = ada.get(page).context["form"]["token"].value()

    for _ in range(2):
        assert ada.post(page, {"token": token, "reason": "obsolete"}).status_code == 302

    assert DeliveryRequest.objects.count() == 1


def test_selected_deliveries_are_confirmed_together(ada: Client):
    sagas = [delivery() for _ in range(3)]
    ids = [saga.pk for saga in sagas]
    listed = ada.post(reverse("admin:sagas_saga_changelist"), {"action": "abandon", "_selected_action": ids})
    assert listed["Location"] == url("abandon", ids=",".join(map(str, ids))).replace("%2C", ",")

    submit(ada, listed["Location"])

    assert set(DeliveryRequest.objects.values_list("saga_id", flat=True)) == set(ids)


def test_too_many_selected_deliveries_are_refused(ada: Client):
    ids = ",".join(map(str, range(1, MAX_SELECTED + 2)))
    assert ada.get(url("abandon", ids=ids)).status_code == 400
    assert ada.get(url("abandon", ids="1,x")).status_code == 400


def test_an_endpoint_is_confirmed_with_a_count(ada: Client):
    subscription = SubscriptionFactory.create()
    other = SubscriptionFactory.create(event_type="other", callback_url=subscription.callback_url)
    delivery(subscription=subscription)
    delivery(subscription=subscription)
    delivery(subscription=other)
    delivery()
    page = url("abandon", endpoint=subscription.pk)
    change = reverse("admin:subscriptions_subscription_change", args=[subscription.pk])
    assert f'href="{page}"' in ada.get(change).content.decode()

    context = ada.get(page).context
    assert (context["preview"].waiting, context["preview_of_all"].waiting) == (2, 3)
    submit(ada, page)
    submit(ada, page, whole_endpoint="on")

    conditions = [json.loads(row.conditions)["subscription_ids"] for row in DeliveryRequest.objects.order_by("id")]
    assert conditions == [[subscription.pk], [subscription.pk, other.pk]]


def test_deliveries_are_abandoned_by_filter(ada: Client):
    delivery(event=EventFactory.create(event_type="order.paid"))
    delivery()
    page = url("abandon", event_type="order.paid", status="Pending", since="2026-01-31T00:00:00Z")

    assert "1 delivery waits." in ada.get(page).content.decode()
    response = submit(ada, page)

    request = DeliveryRequest.objects.get()
    assert json.loads(request.conditions)["event_type"] == "order.paid"
    assert response.redirect_chain == [(format.page_url(DeliveryRequest, request.pk), 302)]
    apply_requests(10)
    assert DeliveryRequest.objects.get().changed == 1


def test_a_filter_without_conditions_abandons_nothing(ada: Client):
    delivery()
    for query in (
        {},
        {"status": "Completed"},
        {"event_type": "no spaces"},
        {"since": "2026-02-01", "until": "2026-01-01"},
    ):
        response = ada.post(url("abandon", **query), {"reason": "r", "token": "t"})
        assert response.status_code == 200
        assert "form" not in response.context
    assert not DeliveryRequest.objects.exists()


def test_a_reason_is_required_and_a_conflict_is_shown(ada: Client):
    saga = delivery()
    assert "Give the reason." in submit(ada, url("abandon", ids=saga.pk), reason="").content.decode()

    shown = submit(ada, url("send_again", ids=saga.pk)).content.decode()

    assert f"Delivery {saga.pk} is Pending: it has not ended yet." in shown
    assert not DeliveryRequest.objects.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_each_page_needs_its_permission(as_user: Callable[..., Client], kind: str):
    client = as_user(*(name for name in ALL if name != kind))
    saga = delivery("Completed" if kind == "send_again" else "Pending")

    assert client.get(url(kind, ids=saga.pk)).status_code == 403
    assert client.post(url(kind, ids=saga.pk), {"reason": "r", "token": "t"}).status_code == 403
    selected = {"action": kind, "_selected_action": [saga.pk]}
    assert client.post(reverse("admin:sagas_saga_changelist"), selected).status_code == 403
    assert url(kind) not in client.get(format.page_url(Saga, saga.pk)).content.decode()
    assert not DeliveryRequest.objects.exists()


def test_many_deliveries_need_the_permission_for_many(as_user: Callable[..., Client]):
    client = as_user(*(name for name in ALL if name != "bulk_request"))
    one, two = delivery(), delivery()

    for page in (
        url("abandon", ids=f"{one.pk},{two.pk}"),
        url("abandon", endpoint=one.subscription_id),
        url("abandon", status="Pending"),
        url("send_now", endpoint=one.subscription_id),
    ):
        assert client.get(page).status_code == 403, page
    assert client.get(url("abandon", ids=one.pk)).status_code == 200
    change = reverse("admin:subscriptions_subscription_change", args=[one.subscription_id])
    assert url("abandon") not in client.get(change).content.decode()


def test_unknown_pages_are_not_found(ada: Client):
    assert ada.get("/admin/sagas/saga/request/destroy/").status_code == 404
    assert ada.get(url("abandon", endpoint="x")).status_code == 404
    assert ada.get(url("send_again")).status_code == 400


def test_the_list_of_requests_shows_who_why_and_the_progress(ada: Client):
    saga = delivery()
    submit(ada, url("abandon", ids=saga.pk), reason=EVIL)
    submit(ada, url("abandon", event_type="order.paid"))
    first = DeliveryRequest.objects.order_by("id")[0]

    listed = ada.get(reverse("admin:sagas_deliveryrequest_changelist")).content.decode()
    page = ada.get(format.page_url(DeliveryRequest, first.pk)).content.decode()
    of_delivery = ada.get(format.page_url(Saga, saga.pk)).content.decode()

    assert "event type: order.paid" in listed
    assert f"delivery {saga.pk}" in listed
    assert "in progress" in page
    for text in (listed, page, of_delivery):
        assert EVIL not in text
    assert "&lt;script&gt;" in page
    assert "&lt;script&gt;" in of_delivery


def test_requests_are_shown_only_with_the_permission(as_user: Callable[..., Client]):
    client = as_user("view_saga")
    assert client.get(reverse("admin:sagas_deliveryrequest_changelist")).status_code == 403
