"""A running hub disables an endpoint that is gone, announces it, and delivers again after a verification."""

from __future__ import annotations

import json

import pytest

from events.intake import publish
from events.models import RoutingInbox
from sagas.models import PARKED, Saga
from subscriptions.models import EndpointHealth, Subscription
from subscriptions.verification import verify
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from webhookhub.conf import KINDS

from .support import Processes, until

WATCHED = ("hub.endpoint.disabled", "hub.endpoint.recovered")


def bodies(endpoint: HttpsEndpoint, path: str) -> list[dict[str, object]]:
    return [json.loads(received.body) for received in list(endpoint.received) if received.path == path]


@pytest.mark.parametrize("separate", [False, True], ids=["one process", "a process per step"])
def test_a_gone_endpoint_is_disabled_announced_and_back_after_a_verification(
    processes: Processes, endpoint: HttpsEndpoint, separate: bool
):
    is_gone = True

    def respond(received: Received) -> Reply:
        return Reply(status=410 if is_gone and received.path == "/gone" else 200)

    endpoint.respond = respond
    subscription: Subscription = SubscriptionFactory.create(callback_url=endpoint.url("/gone"), max_retry_limit=5)
    for event_type in WATCHED:
        SubscriptionFactory.create(callback_url=endpoint.url("/watch"), event_type=event_type)
    if separate:
        processes.start_loops(WEBHOOKHUB_BASE_DELAY="0.2")
    else:
        processes.start("run_hub", WEBHOOKHUB_BASE_DELAY="0.2").wait_for("process_started", 1 + len(KINDS))
    publish("order.created", {"number": 1})

    [disabled] = until(lambda: bodies(endpoint, "/watch"), "the event about the disabled endpoint is delivered")
    assert disabled["type"] == "hub.endpoint.disabled"
    assert disabled["data"]["subscription_ids"] == [subscription.id]
    subscription.refresh_from_db()
    assert not subscription.is_routable
    until(
        lambda: Saga.objects.filter(subscription=subscription, next_attempt_at=PARKED).exists(), "the retry is parked"
    )
    publish("order.created", {"number": 2})
    until(lambda: processed("order.created"), "the second event is routed")
    assert Saga.objects.filter(subscription=subscription).count() == 1, "it creates no delivery"

    is_gone = False
    assert verify(subscription).verified
    until(lambda: Saga.objects.get(subscription=subscription).status == "Completed", "the parked delivery is sent")
    until(lambda: len(bodies(endpoint, "/watch")) == 2, "the recovery is announced")
    recovered = bodies(endpoint, "/watch")[1]
    assert recovered["type"] == "hub.endpoint.recovered"
    assert recovered["data"]["recovered_by"] == "verification"  # type: ignore[index]
    assert EndpointHealth.objects.get().disabled_at is None
    publish("order.created", {"number": 3})
    until(lambda: len(bodies(endpoint, "/gone")) >= 3, "new events are delivered again")


def processed(event_type: str) -> bool:
    return not RoutingInbox.objects.filter(event_type=event_type).exists()
