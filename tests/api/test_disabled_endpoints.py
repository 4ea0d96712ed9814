"""Disabled endpoints in the API."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sagas.parking import park
from subscriptions import health
from subscriptions.models import Subscription, endpoint_id
from tests.factories import SagaFactory, SubscriptionFactory
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

from .conftest import Program

pytestmark = pytest.mark.django_db

REASON = {"reason": "the customer has fixed it"}


@pytest.fixture
def disabled() -> Subscription:
    subscription: Subscription = SubscriptionFactory.create()
    assert health.disable_gone(endpoint_id(subscription))
    return subscription


def is_enabled(subscription: Subscription) -> bool:
    subscription.refresh_from_db()
    return subscription.is_routable


def test_it_shows_why_and_since_when(hub_wide: Program, disabled: Subscription):
    healthy = SubscriptionFactory.create()
    shown = hub_wide.get(f"/subscriptions/{disabled.id}").json()
    assert shown["disabled_at"] is not None
    assert shown["disabled_reason"] == "the endpoint responded with 410 Gone"
    listed = {item["id"]: item["disabled_reason"] for item in hub_wide.get("/subscriptions").json()["items"]}
    assert listed == {disabled.id: "the endpoint responded with 410 Gone", healthy.id: None}


def test_a_key_enables_it_with_a_reason_and_may_be_repeated(hub_wide: Program, disabled: Subscription):
    for _ in range(2):
        response = hub_wide.post(f"/subscriptions/{disabled.id}/enable", REASON)
        assert response.status_code == 200
        assert response.json()["disabled_at"] is None
    assert is_enabled(disabled)
    assert Entry.objects.get(action="subscription.enable").via == "api"


def test_it_requires_a_reason(hub_wide: Program, disabled: Subscription):
    for body in ({}, {"reason": "  "}, {"reason": "a\u202eb"}):
        response = hub_wide.post(f"/subscriptions/{disabled.id}/enable", body)
        assert response.status_code == 422
    assert not is_enabled(disabled)


def test_a_rate_limit_is_set_changed_and_removed(hub_wide: Program):
    new = {"event_type": "order.created", "callback_url": "https://hooks.example.com/x", "rate_limit": 5}
    created = hub_wide.post("/subscriptions", new).json()
    assert created["rate_limit"] == 5
    path = f"/subscriptions/{created['id']}"
    assert hub_wide.patch(path, {"rate_limit": 7}).json()["rate_limit"] == 7
    assert Entry.objects.latest("id").details == '{"rate_limit": {"from": 5, "to": 7}}'
    assert hub_wide.patch(path, {"rate_limit": None}).json()["rate_limit"] is None
    for wrong in (0, 10_001, "5", 1.5):
        assert hub_wide.patch(path, {"rate_limit": wrong}).status_code == 422


def test_the_figures_of_an_endpoint_are_shown_without_its_query(hub_wide: Program, shop: Program):
    subscription: Subscription = SubscriptionFactory.create(callback_url="https://127.0.0.1:1025/x?token=secret")
    saga = SagaFactory.create(subscription=subscription, next_attempt_at=clock.now() - timedelta(seconds=1))
    assert park([saga.id], "Pending") == 1
    health.disable_gone(endpoint_id(subscription))

    shown = hub_wide.get(f"/subscriptions/{subscription.id}/endpoint").json()

    assert shown["url"] == "https://127.0.0.1:1025/x?…"
    assert (shown["subscription"], shown["waiting"], shown["open"]) == (subscription.id, 1, 0)
    assert shown["last_error_code"] == "http_410"
    assert shown["disabled_at"] is not None
    assert hub_wide.get("/endpoints/worst").json()["items"] == [shown]
    assert shop.get("/endpoints/worst").status_code == 403
    assert shop.get(f"/subscriptions/{subscription.id}/endpoint").status_code == 403
