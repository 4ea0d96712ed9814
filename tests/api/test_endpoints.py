"""Endpoints: several event types in one call, and everything that is then done to them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from api.scopes import ENDPOINTS_VOUCH, READ, SUBSCRIPTIONS_WRITE
from events.intake import publish
from events.routing import Router
from sagas.models import Saga
from subscriptions import secrets
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription
from tests.factories import CustomerFactory, SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.auditlog.models import Entry

from .conftest import Program

pytestmark = pytest.mark.django_db
URL = "https://127.0.0.1:8443/hook"
TYPES = ["order.created", "order.paid"]
OWN_SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NOBODY = "01a1eebd-2816-7d0c-a8db-e423f6acf92a"


@pytest.fixture
def hub_wide(program: Callable[..., Program]) -> Program:
    return program("operator", READ, SUBSCRIPTIONS_WRITE, ENDPOINTS_VOUCH)


@pytest.fixture
def bound(program: Callable[..., Program]) -> Callable[[str], Program]:
    def of_customer(key: str) -> Program:
        CustomerFactory.create(customer_key=key)
        return program(key, READ, SUBSCRIPTIONS_WRITE, customer_key=key)

    return of_customer


def create(program: Program, **values: Any) -> dict[str, Any]:
    response = program.post("/endpoints", {"callback_url": URL, "event_types": TYPES, **values})
    assert response.status_code == 201, response.content
    document: dict[str, Any] = response.json()
    return document


def actions() -> list[str]:
    return list(Entry.objects.filter(object_type="endpoint").order_by("id").values_list("action", flat=True))


def test_one_call_creates_an_endpoint_with_its_event_types(hub_wide: Program):
    created = create(hub_wide, rate_limit=5, headers={"X-Key": "secret"})
    assert created["event_types"] == TYPES
    assert created["secret"].startswith("whsec_")
    shown = hub_wide.get(f"/endpoints/{created['uid']}").json()
    assert shown == {name: value for name, value in created.items() if name != "secret"}
    assert (shown["rate_limit"], shown["header_names"], shown["verified"]) == (5, ["X-Key"], False)
    assert hub_wide.get("/endpoints").json()["items"] == [shown]
    [endpoint] = Endpoint.objects.all()
    assert set(Subscription.objects.values_list("endpoint_id", "secret")) == {(endpoint.pk, endpoint.secret)}
    assert actions() == ["endpoint.create", "subscription.reveal_secret"]


def test_an_own_secret_is_kept(hub_wide: Program):
    created = create(hub_wide, secret=OWN_SECRET)
    assert created["secret"] == OWN_SECRET
    assert secrets.reveal(Subscription.objects.all()[0]) == OWN_SECRET


def test_patterns_are_stored_in_their_shortest_form_and_once(hub_wide: Program):
    created = create(hub_wide, event_types=["order.*.*", "order.*", " * ", "a.b"])
    assert created["event_types"] == ["*", "a.b", "order.*"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"event_types": ["or*der"]}, "event_types"),
        ({"event_types": ["order created"]}, "event_types"),
        ({"callback_url": "http://127.0.0.1/"}, "callback_url"),
        ({"secret": "short"}, "secret"),
        ({"customer": "nobody"}, "customer"),
        ({"retry_delays": [1], "base_delay": 1}, "retry_delays"),
    ],
)
def test_what_is_invalid_is_refused_and_nothing_is_stored(hub_wide: Program, values: dict[str, Any], field: str):
    response = hub_wide.post("/endpoints", {"callback_url": URL, "event_types": TYPES, **values})
    assert response.status_code == 422
    assert field in response.json()["errors"][0]["field"]
    assert not Endpoint.objects.exists()


def test_an_event_type_of_another_endpoint_with_this_url_is_a_conflict(hub_wide: Program):
    create(hub_wide)
    response = hub_wide.post("/endpoints", {"callback_url": URL, "event_types": ["order.paid"]})
    assert response.status_code == 409
    assert Endpoint.objects.count() == 1


def test_a_change_is_for_all_its_subscriptions(hub_wide: Program):
    path = f"/endpoints/{create(hub_wide)['uid']}"
    changed = hub_wide.patch(path, {"rate_limit": 9, "event_types": ["order.paid", "invoice.*"]}).json()
    assert (changed["rate_limit"], changed["event_types"]) == (9, ["invoice.*", "order.paid"])
    assert hub_wide.post(f"{path}/pause").json()["active"] is False
    assert set(Subscription.objects.existing().values_list("rate_limit", "active")) == {(9, False)}
    assert hub_wide.post(f"{path}/resume").json()["active"] is True
    assert [row["event_type"] for row in hub_wide.get("/subscriptions").json()["items"]] == ["order.paid", "invoice.*"]
    # An event type that was removed can be added again.
    assert hub_wide.patch(path, {"event_types": TYPES}).json()["event_types"] == TYPES
    assert actions()[2:] == ["endpoint.edit", "endpoint.pause", "endpoint.resume", "endpoint.edit"]


def test_a_deleted_endpoint_is_hidden_and_gets_nothing_and_its_history_stays(hub_wide: Program):
    subscription = SubscriptionFactory.create(callback_url=URL)
    publish("order.created", {})
    Router().route(10)
    uid = subscription.endpoint.uid
    deleted = hub_wide.send("DELETE", f"/endpoints/{uid}", None)
    assert deleted.json()["deleted_at"] is not None
    publish("order.created", {})
    Router().route(10)
    assert Saga.objects.count() == 1
    for path in (f"/endpoints/{uid}", f"/subscriptions/{subscription.pk}"):
        assert hub_wide.get(path).status_code == 404
    assert hub_wide.get("/endpoints").json()["items"] == hub_wide.get("/subscriptions").json()["items"] == []
    assert len(hub_wide.get("/deliveries").json()["items"]) == 1
    # The same URL and type again.
    assert create(hub_wide)["event_types"] == TYPES


def test_rotating_verifying_and_testing_are_for_all_its_subscriptions(hub_wide: Program, endpoint: HttpsEndpoint):
    created = create(hub_wide, callback_url=endpoint.url())
    path = f"/endpoints/{created['uid']}"
    assert hub_wide.post(f"{path}/verify").json()["proved"] is True
    assert hub_wide.post(f"{path}/test").json()["delivered"] is True
    rotated = hub_wide.post(f"{path}/rotate-secret").json()["secret"]
    assert rotated != created["secret"]
    for subscription in Subscription.objects.all():
        assert subscription.verified
        assert secrets.reveal(subscription) == rotated
    assert hub_wide.post(f"{path}/rotate-secret").status_code == 409


def test_a_person_vouches_for_an_endpoint_that_cannot_return_a_challenge(hub_wide: Program):
    path = f"/endpoints/{create(hub_wide)['uid']}"
    vouched = hub_wide.post(f"{path}/vouch", {"reason": "a chat service"}).json()
    assert (vouched["verified"], vouched["vouch_reason"]) == (True, "a chat service")
    assert vouched["vouched_by"]
    assert set(Subscription.objects.values_list("verified", flat=True)) == {True}
    entry = Entry.objects.get(action="endpoint.vouch")
    assert entry.reason == "a chat service"
    moved = hub_wide.patch(path, {"callback_url": f"{URL}/2"}).json()
    assert (moved["verified"], moved["vouched_by"]) == (False, None)


def test_vouching_needs_its_own_scope_and_a_reason(program: Callable[..., Program], hub_wide: Program):
    path = f"/endpoints/{create(hub_wide)['uid']}/vouch"
    assert program("another", READ, SUBSCRIPTIONS_WRITE).post(path, {"reason": "r"}).status_code == 403
    assert hub_wide.post(path, {"reason": " "}).status_code == 422
    assert not Endpoint.objects.get().verified


def test_a_key_of_a_customer_sees_its_own_endpoints_only(hub_wide: Program, bound: Callable[[str], Program]):
    acme, globex = bound("acme"), bound("globex")
    own, others, operators = create(acme), create(globex), create(hub_wide)
    assert [item["uid"] for item in acme.get("/endpoints").json()["items"]] == [own["uid"]]
    assert acme.get("/endpoints", customer="globex").json()["items"] == []
    assert acme.get(f"/endpoints/{own['uid']}").json()["customer"] == "acme"
    before = list(Endpoint.objects.order_by("id").values())
    for other in (others["uid"], operators["uid"], NOBODY):
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/state", None),
            ("PATCH", "", {"active": False}),
            ("DELETE", "", None),
            ("POST", "/pause", None),
            ("POST", "/resume", None),
            ("POST", "/verify", None),
            ("POST", "/test", None),
            ("POST", "/rotate-secret", {}),
            ("POST", "/enable", {"reason": "r"}),
        ):
            content = None if body is None else json.dumps(body).encode()
            assert acme.send(method, f"/endpoints/{other}{path}", content).status_code == 404, (method, path)
    assert acme.post(f"/endpoints/{own['uid']}/vouch", {"reason": "r"}).status_code == 403
    other = acme.post("/endpoints", {"callback_url": URL, "event_types": ["a"], "customer": "globex"})
    assert other.status_code == 422
    assert list(Endpoint.objects.order_by("id").values()) == before


def test_the_short_form_joins_the_endpoint_of_its_url(hub_wide: Program):
    created = create(hub_wide)
    short = hub_wide.post("/subscriptions", {"event_type": "order.shipped", "callback_url": URL}).json()
    assert short["secret"] == created["secret"]
    shown = hub_wide.get(f"/endpoints/{created['uid']}").json()
    assert shown["event_types"] == ["order.created", "order.paid", "order.shipped"]
    assert short["id"] in {row["id"] for row in shown["subscriptions"]}
    state = hub_wide.get(f"/endpoints/{created['uid']}/state").json()
    assert state["subscription"] == min(row["id"] for row in shown["subscriptions"])


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    call_command("endpoint", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_the_command_does_the_same(capsys: pytest.CaptureFixture[str], endpoint: HttpsEndpoint):
    CustomerFactory.create(customer_key="acme")
    created = run(capsys, "create", endpoint.url(), "order.created", "order.*", "--customer", "acme")
    assert (created["event_types"], created["state"]) == (["order.*", "order.created"], "unverified")
    assert created["secret"].startswith("whsec_")
    uid = created["uid"]
    assert run(capsys, "verify", uid)["state"] == "active"
    assert run(capsys, "pause", uid)["state"] == "paused"
    assert run(capsys, "resume", uid)["state"] == "active"
    assert [row["uid"] for row in run(capsys, "list", "--customer", "acme")["endpoints"]] == [uid]
    assert run(capsys, "delete", uid)["state"] == "deleted"
    assert run(capsys, "list")["endpoints"] == []
    with pytest.raises(CommandError, match="There is no endpoint"):
        run(capsys, "pause", uid)
    with pytest.raises(CommandError, match="Nothing was stored"):
        run(capsys, "create", URL, "order created")


def test_the_command_vouches(capsys: pytest.CaptureFixture[str]):
    uid = run(capsys, "create", URL, "*")["uid"]
    assert run(capsys, "vouch", uid, "--reason", "a chat service")["state"] == "active"
    assert Endpoint.objects.get().vouch_reason == "a chat service"
