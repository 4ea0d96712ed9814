"""A hanging endpoint with thousands of waiting deliveries does not delay the others, and waiting costs nothing."""

from __future__ import annotations

import socket
from datetime import datetime

from django.db.models import Count, Max

from events.intake import NewEvent, publish, publish_many
from events.routing import Router
from jobs.models import Job
from jobs.states import ACTIVE
from sagas.models import Saga
from sagas.transitions import COMPLETED, PENDING
from tests.factories import SubscriptionFactory
from tests.webhookhub.integrity.support import assert_clean
from tools.demo.endpoint import HttpsEndpoint

from .support import Processes, until
from .test_stopping import LONG_TIMEOUTS

PATIENT = LONG_TIMEOUTS | {"WEBHOOKHUB_CONNECT_TIMEOUT": "300"}
WAITING = 2_000
HEALTHY = 5
EVENTS = 10
BATCH = 500


def seed(url: str) -> None:
    """Due deliveries, all of them older than those of the healthy endpoints."""
    SubscriptionFactory(event_type="order.late", callback_url=url)
    for _ in range(0, WAITING, BATCH):
        publish_many([NewEvent("order.late", {"n": n}) for n in range(BATCH)])
    router = Router()
    while router.route(BATCH):
        pass
    assert Saga.objects.filter(status=PENDING).count() == WAITING


def completed() -> int:
    return Saga.objects.filter(status=COMPLETED).count()


def park() -> dict[str, int | datetime]:
    """How many deliveries are parked, and when the last of them was written."""
    rows = Saga.objects.filter(parked_subscription_id__isnull=False)
    return rows.aggregate(count=Count("id"), written=Max("updated_at"))


def deliver(count: int) -> None:
    """Publishes so many events one by one, and waits until all healthy endpoints have got them."""
    wanted = completed() + count * HEALTHY
    for number in range(count):
        publish("order.created", {"n": number})
    until(lambda: completed() == wanted, "the healthy endpoints get their deliveries")


def test_a_hanging_endpoint_does_not_delay_the_others(processes: Processes, endpoint: HttpsEndpoint):
    for number in range(HEALTHY):
        SubscriptionFactory(callback_url=endpoint.url(f"/{number}"))
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections and says nothing
        seed(f"https://127.0.0.1:{silent.getsockname()[1]}/")
        hub = processes.start("run_hub", **PATIENT)
        deliver(EVENTS)
        until(lambda: park()["count"] == WAITING - len(open_attempts()), "the others are parked")
        before = park()
        assert 0 < len(open_attempts()) < 10

        deliver(EVENTS)
        assert park() == before, "a parked delivery is not written again"
        assert "job_released" not in hub.output, "no attempt was given back"
    assert_clean()


def open_attempts() -> list[int]:
    return list(Job.objects.filter(status__in=ACTIVE).values_list("id", flat=True))
