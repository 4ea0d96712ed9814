"""Loops that poll once an hour deliver at once, because each notifies the next."""

from __future__ import annotations

from events.intake import publish
from sagas.models import Saga
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint

from .support import Processes, until

SELDOM = ("--interval", "3600")


def test_an_idle_hub_delivers_an_event_without_waiting_for_its_interval(processes: Processes, endpoint: HttpsEndpoint):
    SubscriptionFactory.create(callback_url=endpoint.url("/hook"))
    loops = processes.start_loops(*SELDOM)
    for running in loops.values():
        running.wait_for("process_started")

    for number in range(3):
        publish("order.created", {"number": number})
        until(lambda count=number + 1: len(endpoint.received) == count, "the event is received")  # type: ignore[misc]
        until(lambda count=number + 1: Saga.objects.filter(status="Completed").count() == count, "and settled")  # type: ignore[misc]
