"""The subscription API: create, change, deactivate, verify, test, rotate the secret, backfill."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from events import backfill as backfilling
from events.models import Event, RoutingInbox
from events.routing import Router
from sagas.create import routed_events
from sagas.models import Saga
from subscriptions.models import Subscription
from subscriptions.secrets import reveal
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import drive
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub import crypto
from webhookhub.db import clock

from .conftest import Program, iso

pytestmark = pytest.mark.django_db

NEW = {"event_type": "order.created", "callback_url": "https://hooks.example.com/x"}


def errors(response: Any) -> list[str]:
    return [error["field"] for error in response.json()["errors"]]


def test_a_new_subscription_returns_its_secret_once_and_is_not_verified(hub_wide: Program):
    body = NEW | {
        "description": "the till",
        "max_retry_limit": 5,
        "base_delay": 1.5,
        "headers": {"Authorization": "Bearer abcdef", "X-Shop": "7"},
    }

    created = hub_wide.post("/subscriptions", body)

    assert created.status_code == 201
    assert created["Cache-Control"] == "no-store"
    stored = Subscription.objects.get()
    assert created.json()["secret"] == reveal(stored)
    assert crypto.decrypt(stored.custom_headers) == "Authorization: Bearer abcdef\nX-Shop: 7"
    assert stored.base_delay == timedelta(seconds=1.5)
    shown = hub_wide.get(f"/subscriptions/{stored.id}").json()
    assert "secret" not in shown
    assert shown == {name: value for name, value in created.json().items() if name != "secret"}
    assert (shown["verified"], shown["active"]) == (False, True)
    assert shown["header_names"] == ["Authorization", "X-Shop"]
    assert "abcdef" not in str(shown)


def test_a_duplicate_subscription_is_a_conflict_that_names_the_first(hub_wide: Program):
    first = hub_wide.post("/subscriptions", NEW).json()["id"]

    again = hub_wide.post("/subscriptions", NEW | {"callback_url": "https://HOOKS.example.com:443/x"})

    assert again.status_code == 409
    assert f"as subscription {first}" in again.json()["detail"]
    assert Subscription.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"event_type": "a b"}, "event_type"),
        ({"event_type": None}, "event_type"),
        ({"callback_url": "http://hooks.example.com/x"}, "callback_url"),
        ({"callback_url": 5}, "callback_url"),
        ({"active": "yes"}, "active"),
        ({"description": "x" * 201}, "description"),
        ({"description": "a\u202eb"}, "description"),
        ({"signing_scheme": "v2"}, "signing_scheme"),
        ({"max_retry_limit": 0}, "max_retry_limit"),
        ({"max_retry_limit": 1001}, "max_retry_limit"),
        ({"max_retry_limit": 1.5}, "max_retry_limit"),
        ({"base_delay": 0}, "base_delay"),
        ({"base_delay": 86401}, "base_delay"),
        ({"retry_delays": []}, "retry_delays"),
        ({"retry_delays": 5}, "retry_delays"),
        ({"retry_delays": [5] * 51}, "retry_delays"),
        ({"retry_delays": [5, 0]}, "retry_delays[1]"),
        ({"retry_delays": [604801]}, "retry_delays[0]"),
        ({"retry_delays": [1.5]}, "retry_delays[0]"),
        ({"retry_delays": ["5"]}, "retry_delays[0]"),
        ({"retry_delays": [True]}, "retry_delays[0]"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"headers": {"X\nY": "a"}}, "headers"),
        ({"headers": {"X": "a\nY: b"}}, "headers"),
        ({"headers": {"X-A": "a\r", "X-B": "b"}}, "headers"),
        ({"headers": {"X: Y": "a"}}, "headers"),
        ({"headers": {"X": ""}}, "headers"),
        ({"headers": ["X: 1"]}, "headers"),
        ({"headers": {"X": 1}}, "headers.X"),
        ({"verified": True}, "verified"),
    ],
)
def test_an_invalid_field_is_named_and_nothing_is_stored(hub_wide: Program, change: dict[str, Any], field: str):
    response = hub_wide.post("/subscriptions", NEW | change)

    assert response.status_code == 422, response.content
    assert errors(response) == [field]
    assert not Subscription.objects.exists()


def test_a_list_of_delays_replaces_limit_and_base_delay(hub_wide: Program):
    created = hub_wide.post("/subscriptions", NEW | {"retry_delays": [5, 300, 1800]}).json()
    path = f"/subscriptions/{created['id']}"
    assert (created["retry_delays"], created["max_retry_limit"], created["base_delay"]) == ([5, 300, 1800], None, None)

    refused = hub_wide.patch(path, {"max_retry_limit": 3})
    assert (refused.status_code, errors(refused)) == (422, ["max_retry_limit"])
    assert hub_wide.get(path).json()["max_retry_limit"] is None
    changed = hub_wide.patch(path, {"max_retry_limit": 3, "retry_delays": None}).json()

    assert (changed["retry_delays"], changed["max_retry_limit"]) == (None, 3)
    both = hub_wide.post("/subscriptions", NEW | {"event_type": "b", "retry_delays": [5], "base_delay": 3})
    assert (both.status_code, errors(both)) == (422, ["retry_delays", "base_delay"])


def test_a_change_keeps_omitted_fields(hub_wide: Program):
    subscription: Any = SubscriptionFactory(description="before", max_retry_limit=7, base_delay=timedelta(seconds=3))
    path = f"/subscriptions/{subscription.pk}"

    changed = hub_wide.patch(path, {"active": False}).json()

    assert (changed["active"], changed["verified"], changed["description"]) == (False, True, "before")
    assert (changed["max_retry_limit"], changed["base_delay"]) == (7, 3.0)
    assert hub_wide.patch(path, {"max_retry_limit": None}).json()["max_retry_limit"] is None
    assert hub_wide.patch(path, {"headers": {"X-A": "1"}}).json()["header_names"] == ["X-A"]
    assert hub_wide.patch(path, {"headers": {}}).json()["header_names"] == []
    assert hub_wide.patch(path, {}).json()["base_delay"] == 3.0
    assert hub_wide.patch(path, {"active": True}).json()["verified"]


def test_a_new_url_must_be_verified(hub_wide: Program):
    subscription: Any = SubscriptionFactory()

    changed = hub_wide.patch(f"/subscriptions/{subscription.pk}", {"callback_url": "https://hooks.example.com/new"})

    assert changed.json()["verified"] is False


def test_a_change_to_an_existing_subscription_is_a_conflict(hub_wide: Program):
    one: Any = SubscriptionFactory()
    other: Any = SubscriptionFactory()

    response = hub_wide.patch(f"/subscriptions/{one.pk}", {"callback_url": other.callback_url})

    assert response.status_code == 409
    one.refresh_from_db()
    assert one.callback_url != other.callback_url


def test_null_is_refused_for_required_fields(hub_wide: Program):
    subscription: Any = SubscriptionFactory()

    for name in ("active", "event_type", "callback_url", "description", "headers"):
        response = hub_wide.patch(f"/subscriptions/{subscription.pk}", {name: None})
        assert response.status_code == 422, name
        assert errors(response) == [name]


def test_subscriptions_are_listed_in_pages(hub_wide: Program):
    subscriptions: list[Any] = [SubscriptionFactory(event_type=f"type.{n % 2}", active=n % 3 > 0) for n in range(7)]

    assert hub_wide.ids("/subscriptions", limit=2) == [subscription.pk for subscription in subscriptions]
    assert hub_wide.ids("/subscriptions", active="false", event_type="type.1") == [subscriptions[3].pk]


def test_a_second_rotation_during_the_overlap_needs_force(hub_wide: Program):
    subscription: Any = SubscriptionFactory()
    path = f"/subscriptions/{subscription.pk}/rotate-secret"
    before = reveal(subscription)

    rotated = hub_wide.post(path)
    refused = hub_wide.post(path)
    forced = hub_wide.post(path, {"force": True, "signing_scheme": "v1a"})

    assert [response.status_code for response in (rotated, refused, forced)] == [200, 409, 200]
    assert rotated.json()["secret"] != before
    assert rotated.json()["previous_secret_until"] is not None
    assert forced.json()["secret"].startswith("whpk_")
    assert forced.json()["signing_scheme"] == "v1a"


def test_with_wrong_encryption_keys_nothing_is_created_or_rotated(hub_wide: Program, hub_settings: Any):
    subscription: Any = SubscriptionFactory()
    before = list(Subscription.objects.values())
    hub_settings(encryption_keys=(crypto.new_key(),))

    created = hub_wide.post("/subscriptions", NEW)
    changed = hub_wide.patch(f"/subscriptions/{subscription.pk}", {"headers": {"X-A": "1"}})
    rotated = hub_wide.post(f"/subscriptions/{subscription.pk}/rotate-secret", {"force": True})

    for response in (created, changed, rotated):
        assert response.status_code == 409
        assert "none of WEBHOOKHUB_ENCRYPTION_KEYS opens" in response.json()["detail"]
    assert list(Subscription.objects.values()) == before


def test_an_endpoint_is_verified_and_tested(hub_wide: Program, endpoint: HttpsEndpoint):
    created = hub_wide.post("/subscriptions", NEW | {"callback_url": endpoint.url()}).json()
    path = f"/subscriptions/{created['id']}"

    verified = hub_wide.post(f"{path}/verify").json()
    tested = hub_wide.post(f"{path}/test").json()
    endpoint.respond = lambda request: Reply(500, b"broken")
    failed = hub_wide.post(f"{path}/test").json()

    assert (verified["verified"], verified["proved"]) == (True, True)
    assert (tested["delivered"], tested["response_status"]) == (True, 200)
    assert (failed["delivered"], failed["error_code"], failed["response_snippet"]) == (False, "http_500", "broken")
    assert [request.event_uid for request in endpoint.received] == [tested["webhook_id"], failed["webhook_id"]]


def test_a_missing_object_is_not_found(hub_wide: Program):
    for method, verb in [("GET", ""), ("PATCH", ""), *(("POST", f"/{v}") for v in ("verify", "test", "rotate-secret"))]:
        assert hub_wide.send(method, f"/subscriptions/99{verb}", b"{}").status_code == 404
    assert hub_wide.post("/subscriptions/99/backfill", {"since": "2026-01-01T00:00:00Z"}).status_code == 404


# Backfill


def past(count: int, **more: Any) -> list[Any]:
    """Events that were routed hours ago, three at a time."""
    first = clock.now() - timedelta(hours=5)
    events = [EventFactory(created_at=first + timedelta(minutes=n // 3), **more) for n in range(count)]
    RoutingInbox.objects.all().delete()
    return events


def fill(program: Program, subscription: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    """All responses until there is no next."""
    responses: list[dict[str, Any]] = []
    while True:
        response = program.post(f"/subscriptions/{subscription.pk}/backfill", body)
        assert response.status_code == 200, response.content
        responses.append(response.json())
        if responses[-1]["next"] is None:
            return responses
        body = body | {"cursor": responses[-1]["next"]}


@pytest.mark.parametrize("limit", [1, 10_000])
def test_a_backfill_creates_one_delivery_per_past_event_of_the_type(hub_wide: Program, limit: int):
    events = past(10)
    past(3, event_type="order.paid")
    subscription: Any = SubscriptionFactory(max_retry_limit=4)
    routed: Any = SagaFactory(event=events[5], subscription=subscription, status="Completed", attempt_count=1)

    responses = fill(hub_wide, subscription, {"since": iso(events[3].created_at), "limit": limit})

    assert sum(response["examined"] for response in responses) == 7
    assert sum(response["created"] for response in responses) == 6
    sagas = Saga.objects.filter(subscription=subscription)
    assert set(sagas.values_list("event_id", flat=True)) == {event.id for event in events[3:]}
    assert set(sagas.values_list("generation", flat=True)) == {0}
    assert set(sagas.exclude(id=routed.id).values_list("status", "max_retry_limit")) == {("Pending", 4)}
    routed.refresh_from_db()
    assert routed.status == "Completed"
    again = fill(hub_wide, subscription, {"since": iso(events[3].created_at), "limit": limit})
    assert sum(response["created"] for response in again) == 0


def test_a_backfill_ends_at_until(hub_wide: Program):
    events = past(10)
    subscription: Any = SubscriptionFactory()

    body = {"since": iso(events[0].created_at), "until": iso(events[4].created_at)}

    assert fill(hub_wide, subscription, body)[0]["created"] == 6


def test_router_and_backfill_create_one_delivery_per_event_together(hub_wide: Program):
    subscription: Any = SubscriptionFactory()
    EventFactory(created_at=clock.now() - timedelta(minutes=1))
    body = {"since": iso(clock.now() - timedelta(hours=1))}

    assert fill(hub_wide, subscription, body)[0]["created"] == 1
    assert Router().route(10) == 1
    assert Saga.objects.count() == 1


@pytest.mark.parametrize("state", [{"active": False}, {"verified": False}])
def test_an_inactive_or_unverified_subscription_is_not_backfilled(hub_wide: Program, state: dict[str, bool]):
    past(3)
    subscription: Any = SubscriptionFactory(**state)

    response = hub_wide.post(f"/subscriptions/{subscription.pk}/backfill", {"since": "2026-01-01T00:00:00Z"})

    assert response.status_code == 409
    assert "activate and verify it first" in response.json()["detail"]
    assert not Saga.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "since"),
        ({"since": "x"}, "since"),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "until"),
        ({"since": "2026-01-02T00:00:00Z", "limit": 10_001}, "limit"),
        ({"since": "2026-01-02T00:00:00Z", "cursor": "x"}, "cursor"),
    ],
)
def test_an_invalid_backfill_request_is_refused(hub_wide: Program, body: dict[str, Any], field: str):
    subscription: Any = SubscriptionFactory()

    response = hub_wide.post(f"/subscriptions/{subscription.pk}/backfill", body)

    assert response.status_code == 422
    assert errors(response) == [field]


def test_a_new_endpoint_receives_earlier_events(
    hub_wide: Program, endpoint: HttpsEndpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backfilling, "MAX_EVENTS", 3)
    past(4)
    created = hub_wide.post("/subscriptions", NEW | {"callback_url": endpoint.url()}).json()
    hub_wide.post(f"/subscriptions/{created['id']}/verify")

    fill(hub_wide, Subscription.objects.get(), {"since": iso(clock.now() - timedelta(days=1))})
    drive.until_terminal()

    received = {request.event_uid for request in endpoint.received}
    assert received == {str(uid) for uid in Event.objects.values_list("uid", flat=True)}


def test_headers_are_dropped_when_the_host_changes(hub_wide: Program):
    """Otherwise a key that may change the URL could have the secret values of headers sent to it."""
    created = hub_wide.post("/subscriptions", NEW | {"headers": {"Authorization": "Bearer s3cret"}}).json()
    path = f"/subscriptions/{created['id']}"

    refused = hub_wide.patch(path, {"callback_url": "https://other.example.com/x"})

    assert refused.status_code == 422
    assert errors(refused) == ["headers"]
    for invalid in ("https://[::1", "https://a\u2100b.com/"):
        refused = hub_wide.patch(path, {"callback_url": invalid})
        assert (refused.status_code, errors(refused)) == (422, ["callback_url"])
    assert hub_wide.patch(path, {"callback_url": "https://hooks.example.com/y"}).status_code == 200
    moved = hub_wide.patch(path, {"callback_url": "https://other.example.com/x", "headers": {}}).json()
    assert (moved["callback_url"], moved["header_names"]) == ("https://other.example.com/x", [])


def test_a_backfill_counts_only_its_own_deliveries(hub_wide: Program, monkeypatch: pytest.MonkeyPatch):
    events = past(3)
    subscription: Any = SubscriptionFactory()
    read = routed_events

    def overtaken(*args: Any) -> set[int]:
        ids = read(*args)
        SagaFactory(event=events[0], subscription=subscription)  # as the router would, right after the query
        return ids

    monkeypatch.setattr(backfilling, "routed_events", overtaken)

    assert fill(hub_wide, subscription, {"since": iso(events[0].created_at)})[0]["created"] == 2


def test_a_read_only_key_gets_no_query_values_of_a_url(hub_wide: Program, program: Callable[..., Program]):
    body = NEW | {"callback_url": "https://hooks.example.com/x?token=s3cret"}
    path = f"/subscriptions/{hub_wide.post('/subscriptions', body).json()['id']}"
    reader = program("reader", "read")

    assert hub_wide.get(path).json()["callback_url"] == body["callback_url"]
    assert reader.get(path).json()["callback_url"] == "https://hooks.example.com/x?token=***"
    assert reader.get("/subscriptions").json()["items"][0]["callback_url"] == "https://hooks.example.com/x?token=***"
