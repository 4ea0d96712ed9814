"""A healthy database behind a broken connection."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from jobs.models import Job
from tests.processes.support import Processes, database_url, until
from tests.processes.test_stopping import worker_with_open_request
from tools.demo.endpoint import HttpsEndpoint
from tools.support.proxy import Proxy

pytestmark = pytest.mark.mysql_family


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
