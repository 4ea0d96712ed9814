"""Customers in the API, and what a key that is bound to one can see and do."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from api.scopes import DELIVERIES_ABANDON, DELIVERIES_SEND, EVENTS_WRITE, READ, REQUEUE, SUBSCRIPTIONS_WRITE
from deadletters.models import DeadLetter
from events.models import Event
from sagas.models import DeliveryRequest, Saga
from subscriptions import customers, health
from subscriptions.models import Customer, Subscription, endpoint_id
from tests.factories import EventFactory, SagaFactory, SubscriptionFactory
from tests.support import legal_steps
from webhookhub.db import clock

from .conftest import Program, iso

pytestmark = pytest.mark.django_db

URL = "https://127.0.0.1:1025/shared"
OF_CUSTOMER = (EVENTS_WRITE, READ, SUBSCRIPTIONS_WRITE, REQUEUE, DELIVERIES_SEND, DELIVERIES_ABANDON)


@pytest.fixture
def acme(program: Callable[..., Program]) -> Program:
    customers.put("acme")
    return program("acme key", *OF_CUSTOMER, customer_key="acme")


@pytest.fixture
def globex(program: Callable[..., Program]) -> Program:
    customers.put("globex")
    return program("globex key", *OF_CUSTOMER, customer_key="globex")


def test_a_customer_is_put_shown_listed_disabled_and_enabled(hub_wide: Program):
    created = hub_wide.send("PUT", "/customers/acme", b'{"name": "Acme Ltd"}')
    assert created.status_code == 201
    again = hub_wide.send("PUT", "/customers/acme", None)
    assert again.status_code == 200
    assert again.json() == created.json()
    assert created.json()["key"] == "acme"
    hub_wide.send("PUT", "/customers/globex", b"{}")
    assert [item["key"] for item in hub_wide.get("/customers").json()["items"]] == ["acme", "globex"]
    page = hub_wide.get("/customers", limit=1).json()
    assert [item["key"] for item in hub_wide.get("/customers", limit=1, cursor=page["next"]).json()["items"]] == [
        "globex"
    ]
    disabled = hub_wide.post("/customers/acme/disable", {"reason": "unpaid"})
    assert disabled.json()["disabled_at"] is not None
    assert [item["key"] for item in hub_wide.get("/customers", disabled="true").json()["items"]] == ["acme"]
    assert hub_wide.post("/customers/acme/enable", {"reason": "paid"}).json()["disabled_at"] is None
    assert hub_wide.get("/customers/acme").json()["name"] == "Acme Ltd"
    assert hub_wide.get("/customers/nobody").status_code == 404
    assert hub_wide.post("/customers/nobody/disable", {"reason": "r"}).status_code == 404
    assert hub_wide.post("/customers/acme/disable", {"reason": " "}).status_code == 422


@pytest.mark.parametrize("key", ["-a", "a%20b", "%C3%A9", "a" * 101])
def test_an_invalid_key_is_refused(hub_wide: Program, key: str):
    response = hub_wide.send("PUT", f"/customers/{key}", b"{}")
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "key"
    assert not Customer.objects.exists()


def test_an_event_names_its_customer(hub_wide: Program):
    unknown = hub_wide.post("/events", {"event_type": "a", "payload": 1, "customer": "acme"})
    assert unknown.status_code == 422
    assert unknown.json()["errors"][0]["field"] == "customer"
    assert "PUT /api/v1/customers/acme" in unknown.json()["detail"]
    customers.put("acme")
    stored = hub_wide.post("/events", {"event_type": "a", "payload": 1, "customer": "acme", "external_id": "1"})
    assert stored.status_code == 201
    uid = stored.json()["uid"]
    assert hub_wide.get(f"/events/{uid}").json()["customer"] == "acme"
    customers.put("globex")
    conflict = hub_wide.post("/events", {"event_type": "a", "payload": 1, "customer": "globex", "external_id": "1"})
    assert (conflict.status_code, conflict.json()["uid"]) == (409, uid)
    batch = hub_wide.post(
        "/events/batch",
        {
            "events": [
                {"event_type": "a", "payload": 1, "customer": "acme"},
                {"event_type": "a", "payload": 2, "customer": "nobody"},
                {"event_type": "a", "payload": 3, "customer": 7},
                {"event_type": "a", "payload": 4},
            ]
        },
    )
    results = batch.json()["results"]
    assert [result["status"] for result in results] == [201, 422, 422, 201]
    assert results[1]["problem"]["errors"][0]["field"] == "events[1].customer"
    assert list(Event.objects.order_by("id").values_list("customer_key", flat=True)) == ["acme", "acme", ""]


def test_a_bound_key_sends_events_of_its_customer_only(acme: Program, globex: Program):
    assert acme.post("/events", {"event_type": "a", "payload": 1}).status_code == 201
    assert acme.post("/events", {"event_type": "a", "payload": 2, "customer": "acme"}).status_code == 201
    other = acme.post("/events", {"event_type": "a", "payload": 3, "customer": "globex"})
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "customer")
    assert set(Event.objects.values_list("customer_key", flat=True)) == {"acme"}


def test_a_conflict_does_not_tell_a_bound_key_the_event_of_another(program: Callable[..., Program]):
    for key in ("acme", "globex"):
        customers.put(key)
    one = program("one", EVENTS_WRITE, source="shop", customer_key="acme")
    two = program("two", EVENTS_WRITE, source="shop", customer_key="globex")
    event = {"event_type": "a", "payload": 1, "external_id": "1"}
    assert one.post("/events", event).status_code == 201
    conflict = two.post("/events", event)
    assert conflict.status_code == 409
    assert "uid" not in conflict.json()


@pytest.fixture
def world(hub_wide: Program) -> dict[str, Any]:
    """For each customer and for the operator, a subscription of the same URL and type with an ended delivery, a dead
    letter and an open delivery; and deliveries of the customers' events to the operator."""
    for key in ("acme", "globex"):
        customers.put(key)
    found: dict[str, Any] = {}
    for key in ("acme", "globex", ""):
        subscription = SubscriptionFactory.create(customer_key=key, callback_url=URL, event_type="order.created")
        event = EventFactory.create(customer_key=key)
        dead = SagaFactory.create(event=event, subscription=subscription, status="DeadLettered", attempt_count=3)
        letter = legal_steps.dead_letter(dead)
        waiting = SagaFactory.create(event=EventFactory.create(customer_key=key), subscription=subscription)
        found[key] = {
            "subscription": subscription.pk,
            "event": str(event.uid),
            "dead": dead.pk,
            "letter": letter.pk,
            "waiting": waiting.pk,
        }
    operators = Subscription.objects.get(pk=found[""]["subscription"])
    for key in ("acme", "globex"):
        saga = SagaFactory.create(event=EventFactory.create(customer_key=key), subscription=operators)
        found[key]["to_operator"] = saga.pk
    return found


def test_a_bound_key_sees_only_its_customer(acme: Program, world: dict[str, Any]):
    own = world["acme"]
    assert [item["key"] for item in acme.get("/customers").json()["items"]] == ["acme"]
    assert acme.get("/customers/acme").status_code == 200
    assert acme.ids("/subscriptions") == [own["subscription"]]
    assert acme.ids("/subscriptions", customer="globex") == []
    assert acme.ids("/deliveries") == [own["waiting"], own["dead"]]
    assert acme.ids("/deliveries", customer="globex") == []
    assert acme.ids("/dead-letters") == [own["letter"]]
    assert acme.ids("/dead-letters", customer="globex") == []
    event = acme.get(f"/events/{own['event']}").json()
    assert [item["id"] for item in event["deliveries"]] == [own["dead"]]
    assert event["deliveries"][0]["customer"] == "acme"
    assert acme.get(f"/deliveries/{own['dead']}").json()["customer"] == "acme"


def test_the_operator_sees_all_and_filters_by_customer(hub_wide: Program, world: dict[str, Any]):
    assert len(hub_wide.ids("/deliveries")) == 8
    own = world["acme"]
    assert hub_wide.ids("/deliveries", customer="acme") == [own["to_operator"], own["waiting"], own["dead"]]
    assert hub_wide.ids("/deliveries", customer="acme", status="Pending") == [own["to_operator"], own["waiting"]]
    assert hub_wide.ids("/dead-letters", customer="acme") == [own["letter"]]
    assert hub_wide.ids("/subscriptions", customer="acme") == [own["subscription"]]


def hidden_paths(other: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    subscription, delivery, letter = other["subscription"], other["waiting"], other["letter"]
    reason = {"reason": "r"}
    since = {"since": iso(clock.now() - timedelta(days=1))}
    return [
        ("GET", f"/events/{other['event']}", {}),
        ("GET", f"/deliveries/{delivery}", {}),
        ("POST", f"/deliveries/{delivery}/send-now", reason),
        ("POST", f"/deliveries/{delivery}/abandon", reason),
        ("POST", f"/deliveries/{other['dead']}/send-again", reason),
        ("GET", f"/dead-letters/{letter}", {}),
        ("POST", f"/dead-letters/{letter}/requeue", reason),
        ("GET", f"/subscriptions/{subscription}", {}),
        ("PATCH", f"/subscriptions/{subscription}", {"active": False}),
        ("POST", f"/subscriptions/{subscription}/rotate-secret", {}),
        ("POST", f"/subscriptions/{subscription}/verify", {}),
        ("POST", f"/subscriptions/{subscription}/test", {}),
        ("POST", f"/subscriptions/{subscription}/enable", reason),
        ("POST", f"/subscriptions/{subscription}/backfill", since),
        ("POST", f"/subscriptions/{subscription}/abandon", reason),
        ("POST", f"/subscriptions/{subscription}/send-now", {**reason, "whole_endpoint": True}),
        ("GET", f"/subscriptions/{subscription}/endpoint", {}),
    ]


@pytest.mark.parametrize("owner", ["globex", ""])
def test_what_belongs_to_another_does_not_exist_for_a_bound_key(acme: Program, world: dict[str, Any], owner: str):
    before = list(Subscription.objects.order_by("id").values())
    for method, path, body in hidden_paths(world[owner]):
        response = acme.get(path) if method == "GET" else acme.send(method, path, json.dumps(body).encode())
        assert response.status_code == 404, (method, path, response.content)
    assert not DeliveryRequest.objects.exists()
    assert list(Subscription.objects.order_by("id").values()) == before
    assert acme.get("/customers/globex").status_code == 404


def test_hub_wide_resources_do_not_exist_for_a_bound_key(acme: Program, world: dict[str, Any]):
    for path in ("/endpoints/worst", "/sagas", "/sagas/failed", "/sagas/stuck"):
        assert acme.get(path).status_code == 404, path
    assert acme.send("PUT", "/customers/acme", b"{}").status_code == 403


def test_the_delivery_of_its_event_to_the_operator_is_hidden(acme: Program, world: dict[str, Any]):
    saga = world["acme"]["to_operator"]
    assert acme.get(f"/deliveries/{saga}").status_code == 404
    event = Event.objects.get(sagas=saga)
    assert acme.get(f"/events/{event.uid}").json()["deliveries"] == []


def test_bulk_requests_of_a_bound_key_touch_only_its_customer(acme: Program, hub_wide: Program, world: dict[str, Any]):
    preview = acme.post("/deliveries/abandon", {"status": "Pending", "dry_run": True}).json()
    assert preview["waiting"] == 1
    made = acme.post("/deliveries/abandon", {"status": "Pending", "reason": "r"})
    assert made.status_code == 202
    request = DeliveryRequest.objects.get()
    assert json.loads(request.conditions)["owner"] == "acme"
    assert acme.get(f"/requests/{request.uid}").status_code == 200
    whole = acme.post(
        f"/subscriptions/{world['acme']['subscription']}/send-now", {"reason": "r", "whole_endpoint": True}
    )
    assert whole.json()["filter"] == {"subscription_ids": [world["acme"]["subscription"]]}
    requeued = acme.post("/dead-letters/requeue", {"reason": "r"}).json()
    assert requeued["count"] == 1
    assert set(Saga.objects.filter(generation=1).values_list("customer_key", flat=True)) <= {"acme"}
    for key in ("globex", ""):
        other = hub_wide.post(f"/deliveries/{world[key]['waiting']}/send-now", {"reason": "r"})
        assert acme.get(f"/requests/{other.json()['uid']}").status_code == 404
        whole = hub_wide.post(f"/subscriptions/{world[key]['subscription']}/abandon", {"reason": "r"})
        assert acme.get(f"/requests/{whole.json()['uid']}").status_code == 404
    every = hub_wide.post("/deliveries/abandon", {"status": "Pending", "reason": "r"})
    assert acme.get(f"/requests/{every.json()['uid']}").status_code == 404


def test_a_cursor_of_one_key_is_of_no_use_to_another(acme: Program, globex: Program, world: dict[str, Any]):
    for path in ("/subscriptions", "/deliveries", "/dead-letters"):
        first = acme.get(path, limit=1).json()
        if first["next"] is not None:
            assert globex.get(path, limit=1, cursor=first["next"]).status_code == 422, path
    assert acme.get("/deliveries", limit=1).json()["next"] is not None


def test_a_bound_key_creates_subscriptions_of_its_customer(acme: Program, globex: Program):
    values = {"event_type": "order.created", "callback_url": URL}
    created = acme.post("/subscriptions", values)
    assert (created.status_code, created.json()["customer"]) == (201, "acme")
    # The same URL and type of another customer: no conflict, which would reveal it.
    assert globex.post("/subscriptions", values).json()["customer"] == "globex"
    assert acme.post("/subscriptions", values).status_code == 409
    other = acme.post("/subscriptions", {**values, "event_type": "b", "customer": "globex"})
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "customer")


def test_the_same_url_of_two_customers_shares_no_state(acme: Program, globex: Program):
    own, other = (SubscriptionFactory.create(customer_key=key, callback_url=URL) for key in ("acme", "globex"))
    health.disable_gone(endpoint_id(other))
    path = f"/subscriptions/{own.pk}"
    assert acme.get(path).json()["disabled_at"] is None
    assert acme.get(f"{path}/endpoint").json()["disabled_at"] is None
    assert globex.get(f"/subscriptions/{other.pk}").json()["disabled_reason"] is not None
    assert acme.post(f"{path}/enable", {"reason": "r"}).status_code == 200
    other.refresh_from_db()
    assert other.disabled_at is not None


def test_the_preview_of_a_filter_shows_only_events_of_the_customer(acme: Program, globex: Program, hub_wide: Program):
    own = EventFactory.create(customer_key="acme", event_type="a")
    EventFactory.create(customer_key="globex", event_type="a")
    preview = acme.post("/subscriptions/preview", {"event_type": "a", "label_filter": []}).json()
    assert [event["uid"] for event in preview["events"]] == [str(own.uid)]
    assert hub_wide.post("/subscriptions/preview", {"event_type": "a", "label_filter": []}).json()["examined"] == 2


def test_a_subscription_of_an_unknown_customer_is_refused(hub_wide: Program):
    values = {"event_type": "order.created", "callback_url": URL, "customer": "nobody"}
    response = hub_wide.post("/subscriptions", values)
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "customer")


@pytest.mark.parametrize("scope", ["customers:write", "event-types:write", "sagas:write", "sagas:operate"])
def test_a_bound_key_has_no_scope_over_other_customers(program: Callable[..., Program], scope: str):
    from api import keys

    customers.put("acme")
    with pytest.raises(keys.InvalidKey, match="only for a key without a customer"):
        program("bound", scope, customer_key="acme")


def test_a_key_is_bound_to_an_existing_customer(program: Callable[..., Program]):
    from api import keys

    with pytest.raises(keys.InvalidKey, match="must be the key of a customer"):
        program("bound", "read", customer_key="nobody")


def test_dead_letters_of_a_bound_key_carry_the_customer(acme: Program, world: dict[str, Any]):
    [item] = acme.get("/dead-letters").json()["items"]
    assert item["customer"] == "acme"
    assert DeadLetter.objects.get(pk=item["id"]).customer_key == "acme"
