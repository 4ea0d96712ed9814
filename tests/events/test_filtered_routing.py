"""Subscriptions with a filter on labels: routing, backfill, the preview, the API and the console."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from events.backfill import backfill
from events.filter_preview import preview
from events.intake import NewEvent, publish, publish_many
from events.models import Event, RoutingInbox
from events.routing import Router
from sagas.models import Saga
from subscriptions import filters, services
from subscriptions.models import Subscription
from tests.factories import EventFactory, SubscriptionFactory
from tests.support import rows
from webhookhub.auditlog.models import Entry
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

EU = [{"label": "region", "equals": "eu"}]
NOT_EU = [{"not": {"label": "region", "equals": "eu"}}]


def of_subscription(subscription: Subscription) -> set[int]:
    return set(Saga.objects.filter(subscription=subscription).values_list("event_id", flat=True))


@pytest.fixture(params=["poll", "hints"])
def route(request: pytest.FixtureRequest) -> Callable[[Router], None]:
    def run(router: Router) -> None:
        if request.param == "poll":
            router.route(100)
        else:
            router.route_hinted(list(RoutingInbox.objects.values_list("event_id", flat=True)), 100)
            router.remove_routed(100)

    return run


def test_each_subscription_gets_the_events_that_its_filter_accepts(route: Callable[[Router], None]):
    eu, others, everything = (SubscriptionFactory.create(label_filter=each) for each in (EU, NOT_EU, None))
    first = publish("order.created", {}, labels={"region": "eu"}).id
    second = publish("order.created", {}, labels={"region": "us"}).id
    third = publish("order.created", {}).id
    route(Router())
    assert of_subscription(eu) == {first}
    assert of_subscription(others) == {second, third}
    assert of_subscription(everything) == {first, second, third}


def test_a_changed_filter_is_in_force_for_the_next_event(route: Callable[[Router], None]):
    subscription, router = SubscriptionFactory.create(label_filter=EU), Router()
    publish("order.created", {}, labels={"region": "us"})
    route(router)
    assert of_subscription(subscription) == set()
    services.change(subscription, {"label_filter": NOT_EU})
    second = publish("order.created", {}, labels={"region": "us"}).id
    route(router)
    services.change(subscription, {"label_filter": None})
    third = publish("order.created", {}, labels={"region": "eu"}).id
    route(router)
    assert of_subscription(subscription) == {second, third}


def test_labels_need_no_further_statement():
    SubscriptionFactory.create()
    router = Router()

    def statements(given: dict[str, str] | None) -> int:
        publish("order.created", {}, labels=given)
        [pk] = RoutingInbox.objects.values_list("event_id", flat=True)
        with CaptureQueriesContext(connection) as queries:
            router.route_hinted([pk], 100)
        router.remove_routed(100)
        return len(queries)

    statements(None)  # loads the subscriptions
    # The inbox with the version, the saga, and the event for the log.
    assert statements(None) == statements({"region": "eu"}) == 3
    SubscriptionFactory.create(label_filter=EU)
    statements(None)
    assert statements({"region": "us"}) == 3


@pytest.mark.sqlite_only  # a server refuses such labels, see test_rows_of_other_programs
def test_labels_and_filters_that_another_program_has_written_do_not_stop_the_router():
    eu = SubscriptionFactory.create(label_filter=EU)
    broken = SubscriptionFactory.create(callback_url="https://example.com/broken")
    Subscription.objects.filter(pk=broken.pk).update(label_filter=None)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE subscriptions SET label_filter = 'nonsense' WHERE id = %s", [broken.pk])
    events = [EventFactory.create(labels=text) for text in ("[]", '{"region": 7}', '{"region": "eu"}')]
    Router().route(100)
    assert of_subscription(eu) == {events[2].pk}
    assert of_subscription(broken) == set()


def test_a_backfill_applies_the_filter():
    started = clock.now()
    publish_many([NewEvent("order.created", n, labels={"region": "eu" if n % 2 else "us"}) for n in range(6)])
    Router().route(100)
    subscription = SubscriptionFactory.create(label_filter=EU)
    result = backfill(subscription.pk, started)
    assert (result.examined, result.created) == (6, 3)
    accepted = [event.id for event in Event.objects.all() if "eu" in (event.labels or "")]
    assert of_subscription(subscription) == set(accepted)
    assert backfill(subscription.pk, started).created == 0


def test_the_preview_examines_the_newest_events_of_the_type(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("events.filter_preview.MAX_EVENTS", 4)
    for n in range(6):
        publish("order.created", n, labels={"n": str(n), "region": "eu" if n % 2 else "us"})
    publish("other", {}, labels={"region": "eu"})
    result = preview("order.created", filters.parse(EU))
    assert (result.examined, result.accepted) == (4, 2)
    assert [event.labels["n"] for event in result.events] == ["5", "3"]
    assert preview("order.created", None).accepted == 4
    assert preview("nothing", None).examined == 0


def test_the_api(client: Client):
    from api import keys

    headers = {"Authorization": f"Bearer {keys.create('ops', ['subscriptions:write', 'read'], by='tests')[1]}"}

    def send(method: str, path: str, body: Any) -> Any:
        return client.generic(method, f"/api/v1{path}", json.dumps(body), "application/json", headers=headers)

    body = {"event_type": "order.created", "callback_url": "https://example.com/hook", "label_filter": EU}
    created = send("POST", "/subscriptions", body).json()
    assert created["label_filter"] == EU
    path = f"/subscriptions/{created['id']}"
    assert client.get(f"/api/v1{path}", headers=headers).json()["label_filter"] == EU
    wrong = send("PATCH", path, {"label_filter": [*EU, {"label": "tier", "one_of": []}]})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["field"] == "label_filter[1].one_of"
    nothing: list[Any] = [None, []]
    for none in nothing:
        assert send("PATCH", path, {"label_filter": EU}).json()["label_filter"] == EU
        assert send("PATCH", path, {"label_filter": none}).json()["label_filter"] is None
    assert "label_filter" in Entry.objects.filter(action="subscription.edit").latest("id").details

    publish("order.created", {}, labels={"region": "eu"})
    publish("order.created", {})
    shown = send("POST", "/subscriptions/preview", {"event_type": "order.created", "label_filter": EU}).json()
    assert (shown["examined"], shown["accepted"]) == (2, 1)
    assert shown["events"][0]["labels"] == {"region": "eu"}
    wrong = send("POST", "/subscriptions/preview", {"event_type": "order.created", "label_filter": [{}]})
    assert wrong.json()["errors"][0]["field"] == "label_filter[0]"


def test_the_console(member: Callable[[str], Client], staff: Callable[..., Client]):
    operator = member("operations")
    name = "subscriptions_subscription"
    form = {"event_type": "order.created", "callback_url": "https://example.com/hook", "active": "on"}
    wrong = operator.post(rows.add(name), {**form, "signing_scheme": "v1", "label_filter": '[{"label": "region"}]'})
    assert "[0] must be an object" in str(wrong.context["adminform"].form.errors["label_filter"])
    saved = operator.post(rows.add(name), {**form, "signing_scheme": "v1", "label_filter": json.dumps(EU)})
    assert saved.status_code == 200
    subscription = Subscription.objects.get()
    assert subscription.label_filter == filters.parse(EU)
    page = rows.change(name, subscription.pk)
    assert "[{&quot;label&quot;: &quot;region&quot;" in operator.get(page).content.decode()
    # The same text in another form is no change; an empty one removes the filter.
    seen = rows.seen(operator, subscription.pk)
    same = json.dumps(EU, indent=1)
    assert operator.post(page, {**form, **seen, "label_filter": same}).status_code == 302
    assert not Entry.objects.filter(action="subscription.edit").exists()
    assert operator.post(page, {**form, **rows.seen(operator, subscription.pk), "label_filter": ""}).status_code == 302
    subscription.refresh_from_db()
    assert subscription.label_filter is None

    publish("order.created", {}, labels={"region": "eu<b>"})
    address = reverse("admin:subscription_preview")
    shown = operator.post(address, {"event_type": "order.created", "label_filter": ""}).content.decode()
    assert "accepts 1 of the newest 1 events" in shown
    assert "eu&lt;b&gt;" in shown
    shown = operator.post(address, {"event_type": "order.created", "label_filter": json.dumps(EU)}).content.decode()
    assert "accepts 0 of the newest 1 events" in shown
    assert "must be a list" in operator.post(address, {"event_type": "a", "label_filter": "{}"}).content.decode()
    assert staff("stranger", "view_subscription").get(address).status_code == 403
