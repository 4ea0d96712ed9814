"""The hub's own events about endpoints: published once, signed and delivered like any other, without a loop."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from events.endpoint_events import announce
from events.intake import publish
from events.models import Event
from events.routing import Router
from jobs.step import CleanerStep
from sagas.flow import Flow, SettledResult
from sagas.models import Saga
from subscriptions import health
from subscriptions.models import EndpointHealth, Subscription, endpoint_id
from tests.factories import SubscriptionFactory
from webhookhub.conf import hub
from webhookhub.db import clock

pytestmark = [pytest.mark.every_engine, pytest.mark.django_db]

URL = "https://127.0.0.1:8443/troubled"


@pytest.fixture
def subscription() -> Subscription:
    subscription: Subscription = SubscriptionFactory.create(callback_url=f"{URL}?token=secret")
    return subscription


def begin(subscription: Subscription, share: float) -> None:
    assert health.note_failing(endpoint_id(subscription), clock.now() - hub().disable_after * share, "timeout")


def fail(subscription: Subscription, code: str = "http_500") -> None:
    Flow().note_results([SettledResult(0, subscription.id, code, 1)])


def announced() -> list[tuple[str, Any]]:
    """The published events, oldest first: type and stage."""
    while announce(1):
        pass
    events = Event.objects.filter(event_type__startswith="hub.").order_by("id")
    return [(event.event_type, json.loads(event.payload)["stage"]) for event in events]


@pytest.mark.parametrize(
    ("share", "events"),
    [
        (0.4, []),
        (0.5, [("hub.endpoint.failing", "50%")]),
        (0.8, [("hub.endpoint.failing", "80%")]),
        (1.0, [("hub.endpoint.disabled", "disabled")]),
    ],
)
def test_each_stage_is_announced_once(subscription: Subscription, share: float, events: list[tuple[str, Any]]):
    begin(subscription, share)
    fail(subscription)
    assert announced() == events
    fail(subscription)
    assert announced() == events


def test_the_whole_story_of_a_trouble_has_one_correlation_id(subscription: Subscription):
    begin(subscription, 0.5)
    fail(subscription)
    announced()
    at = clock.now() - hub().disable_after
    EndpointHealth.objects.update(failing_since=at)  # time passes
    fail(subscription)
    announced()
    health.enable(subscription, reason="fixed")
    stages = ["50%", "disabled", "recovered"]
    assert [stage for _, stage in announced()] == stages
    assert Event.objects.values_list("correlation_id", flat=True).distinct().count() == 2  # the first had another start
    last = Event.objects.latest("id")
    assert (last.source, json.loads(last.payload)["recovered_by"]) == ("hub", "operator")


def test_the_payload_says_which_endpoint_and_why_without_its_query(subscription: Subscription):
    other = SubscriptionFactory.create(callback_url=subscription.callback_url, event_type="order.paid")
    fail(subscription, "http_410")
    announced()
    payload = json.loads(Event.objects.get().payload)
    row = EndpointHealth.objects.get()
    assert row.disabled_at is not None
    assert payload == {
        "url": f"{URL}?…",
        "subscription_ids": [subscription.id, other.id],
        "event_types": ["order.created", "order.paid"],
        "failing_since": row.failing_since.isoformat(),
        "last_error_code": "http_410",
        "stage": "disabled",
        "disabled_at": row.disabled_at.isoformat(),
        "disabled_reason": "gone",
    }
    assert "secret" not in Event.objects.get().payload


def test_a_short_trouble_is_not_announced_and_neither_is_its_end(subscription: Subscription):
    begin(subscription, 0.1)
    assert health.note_success(endpoint_id(subscription))
    assert announced() == []


def test_an_announced_trouble_that_ends_is_announced(subscription: Subscription):
    begin(subscription, 0.6)
    fail(subscription)
    announced()
    Flow().note_results([SettledResult(0, subscription.id, None, 1)])
    assert announced()[1:] == [("hub.endpoint.recovered", "recovered")]
    assert EndpointHealth.objects.get().announced == 0


def test_a_repetition_after_another_error_is_the_same_event(subscription: Subscription):
    fail(subscription, "http_410")
    announced()
    EndpointHealth.objects.update(announced=0, last_error_code="timeout")  # a crash before the mark
    announced()
    assert Event.objects.count() == 1
    assert EndpointHealth.objects.get().announced == 100


def test_the_next_trouble_waits_until_the_end_of_the_last_one_is_announced(subscription: Subscription):
    begin(subscription, 0.6)
    fail(subscription)
    announced()
    health.note_success(endpoint_id(subscription))
    assert not health.note_failing(endpoint_id(subscription), clock.now(), "timeout")
    announced()
    begin(subscription, 0.0)


def test_events_about_an_endpoint_that_subscribes_to_them_do_not_loop(hub_settings: Callable[..., None]):
    hub_settings(disable_after=timedelta(days=1), breaker_failures=1)
    types = ("hub.endpoint.failing", "hub.endpoint.disabled", "hub.endpoint.recovered")
    watchers = [SubscriptionFactory.create(callback_url=URL, event_type=name) for name in types]
    fail(watchers[0])  # its breaker opens: stored
    for share in (0.5, 0.8, 1.0):
        EndpointHealth.objects.update(failing_since=clock.now() - hub().disable_after * share)
        for _ in range(3):
            fail(watchers[0])  # the deliveries of the events about itself fail, too
            announced()
            Router().route(100)
    assert [stage for _, stage in announced()] == ["50%", "80%", "disabled"]
    assert Saga.objects.count() == 2, "the last event finds no enabled subscription"


def test_the_cleaner_announces(subscription: Subscription):
    fail(subscription, "http_410")
    CleanerStep().run(100)
    assert EndpointHealth.objects.get().announced == 100
    assert Event.objects.count() == 1


@pytest.mark.parametrize("name", ["hub.endpoint.disabled", "HUB.x", "hub"])
def test_a_producer_cannot_publish_them(name: str):
    with pytest.raises(ValueError, match="reserved for the hub"):
        publish(name, {})
