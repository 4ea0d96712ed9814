"""A worker behind a forward proxy: the proxy's trouble is not the endpoint's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from jobs.models import Job
from jobs.worker import Worker
from subscriptions import verification
from subscriptions.models import EndpointHealth
from subscriptions.sample_delivery import send_test
from tests.factories import JobFactory, SubscriptionFactory
from tests.jobs.test_worker import finished, jobs_at, turn_until
from tests.support.proxy import ConnectProxy
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub import conf
from webhookhub.db import clock

pytestmark = pytest.mark.django_db
REFUSED = "407 Proxy Authentication Required"


@pytest.fixture
def proxy(endpoint: HttpsEndpoint, hub_settings: Callable[..., None]) -> Iterator[ConnectProxy]:
    with ConnectProxy() as running:
        hub_settings(egress_proxy=conf._proxy(running.url()))
        yield running


def test_a_delivery_goes_through_the_proxy(endpoint: HttpsEndpoint, proxy: ConnectProxy):
    [job] = jobs_at(endpoint, 1)
    worker = Worker("w")
    turn_until(worker, finished)
    worker.close()

    job.refresh_from_db()
    assert job.status == "Completed"
    assert [asked.target for asked in proxy.asked] == [f"127.0.0.1:{endpoint.port}"]


@pytest.mark.parametrize("reply", [REFUSED, "502 Bad Gateway"])
def test_trouble_of_the_proxy_uses_up_no_attempt(endpoint: HttpsEndpoint, proxy: ConnectProxy, log_stream, reply: str):
    proxy.reply = reply
    jobs = jobs_at(endpoint, 30)
    worker = Worker("w")
    turn_until(worker, lambda: bool(proxy.asked) and not worker.open_jobs)
    asked = len(proxy.asked)
    for _ in range(20):  # it does not spin: nothing is due
        assert worker.turn(100) == 0

    assert len(proxy.asked) == asked <= 30
    now = clock.now()
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.error_code, job.attempt_no, job.lease_resets) == ("Pending", None, 1, 0)
        assert job.lease_until is not None
        assert job.lease_until > now
    assert not EndpointHealth.objects.exists()
    lines = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    assert [line["error_code"] for line in lines if line["event"] == "proxy_failed"] != []
    assert not any(line["event"] == "job_reported" for line in lines)

    proxy.reply = ""
    Job.objects.update(lease_until=clock.now())
    until = time.monotonic() + 30
    while not finished():
        worker.turn(100)
        Job.objects.filter(status="Pending").update(lease_until=clock.now())
        assert time.monotonic() < until
    worker.close()
    assert len(endpoint.received) == 30


def test_a_response_of_the_endpoint_counts(endpoint: HttpsEndpoint, proxy: ConnectProxy):
    endpoint.respond = lambda request: Reply(502)
    job = JobFactory.create(saga__subscription__callback_url=endpoint.url())
    worker = Worker("w")
    turn_until(worker, finished)
    worker.close()

    job.refresh_from_db()
    assert (job.status, job.error_code) == ("Failed", "http_502")


def test_verifications_and_test_events_go_through_the_proxy(endpoint: HttpsEndpoint, proxy: ConnectProxy):
    subscription = SubscriptionFactory.create(callback_url=endpoint.url(), verified=False)

    proxy.reply = REFUSED
    assert verification.verify(subscription).result == "proxy_auth_error"
    assert send_test(subscription).response.error_code == "proxy_auth_error"
    proxy.reply = ""
    assert verification.verify(subscription).verified
    assert send_test(subscription).response.error_code is None
    assert len(proxy.asked) == 4
