"""The database's clock, estimated by processes whose own clock may be wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.db import connection

from events.intake import publish
from jobs.models import Job
from subscriptions.verification import verify
from tests.conformance.machine.product import Clock
from tests.factories import SubscriptionFactory
from tests.support.drive import until, until_terminal
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from webhookhub.db import clock

HOUR = timedelta(hours=1)
pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("committed")]


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def offset(request: pytest.FixtureRequest) -> Iterator[timedelta]:
    """How far the database's clock is ahead of this process's clock."""
    ahead: timedelta = request.param
    database_clock = Clock()
    database_clock.now = datetime.now(UTC) + ahead
    database_clock.set(connection)
    yield ahead
    connection.close()  # its successor has the usual clock


def assert_is_now(timestamp: datetime, offset: timedelta) -> None:
    assert abs(timestamp - datetime.now(UTC) - offset) < timedelta(minutes=1)


def test_a_delivery_is_signed_with_the_time_of_the_database(endpoint: HttpsEndpoint, offset: timedelta):
    SubscriptionFactory.create(callback_url=endpoint.url())
    publish("order.created", {})

    until_terminal()

    [received] = endpoint.received
    assert_is_now(datetime.fromtimestamp(int(received.headers["webhook-timestamp"]), UTC), offset)


def test_a_verification_is_signed_with_the_time_of_the_database(
    endpoint: HttpsEndpoint, offset: timedelta, monkeypatch: pytest.MonkeyPatch
):
    requests: list[Received] = []

    def take(received: Received) -> Reply:
        requests.append(received)
        return Reply()

    monkeypatch.setattr(endpoint, "take", take)

    verify(SubscriptionFactory.create(callback_url=endpoint.url()))

    [received] = requests
    assert_is_now(datetime.fromtimestamp(int(received.headers["webhook-timestamp"]), UTC), offset)
    assert_is_now(datetime.fromisoformat(json.loads(received.body)["timestamp"]), offset)


def test_a_date_in_retry_after_is_compared_with_the_time_of_the_database(endpoint: HttpsEndpoint, offset: timedelta):
    SubscriptionFactory.create(callback_url=endpoint.url())
    date = format_datetime(datetime.now(UTC) + offset + timedelta(minutes=5), usegmt=True)
    endpoint.respond = lambda request: Reply(503, b"", (("Retry-After", date),))
    publish("order.created", {})

    until(lambda: Job.objects.filter(status="Failed").exists())

    job = Job.objects.get(status="Failed")
    assert job.retry_after is not None
    assert_is_now(job.retry_after - timedelta(minutes=5), offset)


def test_an_estimate_follows_the_database_without_a_statement(offset: timedelta, django_assert_num_queries: Any):
    estimate = clock.Estimate()
    estimate.measure_if_due()

    with django_assert_num_queries(0):
        for _ in range(100):
            estimate.measure_if_due()
            estimate.now()

    assert_is_now(estimate.now(), offset)
    assert abs(estimate.now() - clock.now()) < timedelta(seconds=1)


@pytest.mark.parametrize("jump", [-2.0, 2.0])
def test_the_clock_is_measured_again_after_a_while_and_after_a_jump(
    django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch, jump: float
):
    estimate = clock.Estimate()
    estimate.measure_if_due()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    with django_assert_num_queries(1):
        estimate.measure_if_due()
        estimate.measure_if_due()
    monkeypatch.setattr(clock, "MEASURE_SECONDS", 0.0)
    with django_assert_num_queries(1):
        estimate.measure_if_due()


def test_an_estimate_needs_a_measurement():
    with pytest.raises(RuntimeError, match="has not been read"):
        clock.Estimate().now()
