"""A healthy database behind a broken connection."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from django.db import connection

from api import keys
from api.scopes import EVENTS_WRITE
from events.models import Event
from jobs.models import Job
from tests.processes.support import Processes, database_url, until
from tests.processes.test_probes import web
from tests.processes.test_stopping import worker_with_open_request
from tools.demo.endpoint import HttpsEndpoint
from tools.support.proxy import Proxy
from webhookhub.client import Client
from webhookhub.db import vendors

pytestmark = pytest.mark.mysql_family
# As docs/monitor.md promises, with some time for a busy machine.
PROBE_SECONDS = 2.0 + 1.0


@pytest.fixture
def proxy(processes: Processes) -> Iterator[Proxy]:
    host, port = connection.settings_dict["HOST"] or "127.0.0.1", int(connection.settings_dict["PORT"] or 3306)
    with Proxy(host, port) as running:
        processes.environment["DATABASE_URL"] = database_url().replace(f"{host}:{port}", f"127.0.0.1:{running.port}")
        yield running


def cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_a_response_that_arrives_while_the_database_is_lost_counts(
    processes: Processes, endpoint: HttpsEndpoint, gate: threading.Event, proxy: Proxy
):
    """Also if the outage is longer than the request's time-out."""
    settings = {"WEBHOOKHUB_CONNECT_TIMEOUT": "2", "WEBHOOKHUB_REQUEST_TIMEOUT": "3", "WEBHOOKHUB_LEASE": "60"}
    worker = worker_with_open_request(processes, endpoint, **settings)
    proxy.cut()
    worker.wait_for("database_lost")
    cut_at = time.monotonic()
    gate.set()
    spent = cpu_seconds(worker.pid)
    until(lambda: time.monotonic() - cut_at > 4, "the request's time-out has passed")
    assert cpu_seconds(worker.pid) - spent < 1  # it waits without using CPU
    proxy.mend()

    worker.wait_for("database_reconnected")
    until(lambda: Job.objects.get().finished_at, "the response is reported")
    job = Job.objects.get()
    assert (job.status, job.response_status) == ("Completed", 200)
    assert len(endpoint.received) == 1


def test_a_second_signal_works_while_the_database_does_not_respond(processes: Processes, proxy: Proxy):
    router = processes.start("run_router")
    router.wait_for("process_started")
    proxy.freeze()
    router.signal(signal.SIGTERM)
    router.signal(signal.SIGINT)

    assert router.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_the_drain_limit_holds_while_the_database_does_not_respond(processes: Processes, proxy: Proxy):
    router = processes.start("run_router", WEBHOOKHUB_DRAIN="1")
    router.wait_for("process_started")
    proxy.freeze()
    router.signal(signal.SIGTERM)

    assert router.wait() == 1
    assert "after the stop signal: exiting" in router.facts("process_failed")[0]["error"]


def test_a_silent_database_is_a_503_in_bounded_time_and_delays_no_probe(processes: Processes, proxy: Proxy):
    _, key = keys.create("shop", [EVENTS_WRITE], by="tests", source="shop")
    url = web(processes)
    event = {"event_type": "order.created", "payload": {}, "external_id": "o-1"}

    def post() -> requests.Response:
        return requests.post(f"{url}/api/v1/events", json=event, headers={"Authorization": f"Bearer {key}"}, timeout=60)

    assert post().status_code == 201
    proxy.freeze()
    started_at = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        posts = [pool.submit(post) for _ in range(2)]
        probes = []
        while not all(each.done() for each in posts):
            for path in ("/healthz", "/readyz"):
                asked_at = time.monotonic()
                response = requests.get(f"{url}{path}", timeout=30)
                probes.append((path, response.status_code))
                assert time.monotonic() - asked_at < PROBE_SECONDS
        refused = [each.result() for each in posts]
    assert time.monotonic() - started_at < vendors.STATEMENT_SECONDS + 10
    assert set(probes) == {("/healthz", 200), ("/readyz", 503)}
    assert [(each.status_code, each.headers["Retry-After"]) for each in refused] == [(503, "5")] * 2

    proxy.thaw()
    until(lambda: post().status_code == 200, "the event is found again")


def test_the_client_publishes_when_the_database_is_back(processes: Processes, proxy: Proxy):
    _, key = keys.create("shop", [EVENTS_WRITE], by="tests", source="shop")
    url = web(processes)
    proxy.cut()
    with Client(url, key, deadline=60) as producer, ThreadPoolExecutor(1) as pool:
        published = pool.submit(producer.publish, "order.created", {"n": 1})
        [lost, *_] = processes.started[-1].wait_for("database_lost")
        assert lost["cause"] == "lost"
        proxy.mend()
        assert published.result(60).created
    assert Event.objects.count() == 1
