"""TERM lets a process finish its work within a bound; a second TERM ends it at once."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from events.intake import publish
from events.routing import Router
from jobs.models import Job
from sagas.dispatch import dispatch
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.models import Process
from webhookhub.runner.signals import ECHO_SECONDS

from .support import LOOPS, Processes, Running, until

# Longer than a test's time-outs: a process that ends in time has not waited for these.
LONG_TIMEOUTS = {"WEBHOOKHUB_REQUEST_TIMEOUT": "600", "WEBHOOKHUB_LEASE": "900"}


def wait_for_echo_time() -> None:
    """Waits until the same signal counts as a second one."""
    first = time.monotonic()
    until(lambda: time.monotonic() - first > ECHO_SECONDS, "the signal is not an echo of the first")


def worker_with_open_request(processes: Processes, endpoint: HttpsEndpoint, **environment: str) -> Running:
    """A worker that has sent a request and waits for the response."""
    SubscriptionFactory(callback_url=endpoint.url())
    publish("order.created", {})
    Router().route(10)
    dispatch(10)
    worker = processes.start("run_worker", **LONG_TIMEOUTS | environment)
    endpoint.wait_for(1)
    return worker


def test_a_stopping_worker_waits_for_the_response_and_reports_it(
    processes: Processes, endpoint: HttpsEndpoint, gate: threading.Event
):
    worker = worker_with_open_request(processes, endpoint, WEBHOOKHUB_DRAIN="600")

    worker.signal(signal.SIGTERM)
    [draining] = worker.wait_for("process_draining")
    assert draining["pending"] == "1 delivery in flight"
    assert draining["at_most_seconds"] == 600
    assert worker.is_alive
    gate.set()

    assert worker.wait() == 0
    assert Job.objects.get().status == "Completed"
    assert worker.facts()[-1]["event"] == "process_stopped"
    assert worker.facts()[-1]["left_unfinished"] is None
    assert len(endpoint.received) == 1


def test_a_stopping_worker_leases_nothing(processes: Processes, endpoint: HttpsEndpoint, gate: threading.Event):
    worker = worker_with_open_request(processes, endpoint, WEBHOOKHUB_DRAIN="600")

    worker.signal(signal.SIGTERM)
    worker.wait_for("process_draining")
    publish("order.created", {})
    Router().route(10)
    dispatch(10)
    gate.set()

    assert worker.wait() == 0
    assert sorted(Job.objects.values_list("status", flat=True)) == ["Completed", "Pending"]


@pytest.mark.requirement("R4-4.1c")
def test_a_stopping_worker_without_a_response_exits_at_the_bound(
    processes: Processes, endpoint: HttpsEndpoint, gate: threading.Event
):
    worker = worker_with_open_request(processes, endpoint, WEBHOOKHUB_DRAIN="1")

    started = time.monotonic()
    code = worker.stop()

    assert code == 0
    assert time.monotonic() - started >= 1
    assert worker.facts("process_stopped")[0]["left_unfinished"] == "1 delivery in flight"
    assert Job.objects.get().status == "Leased", "the job waits for its lease to end"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_a_process_at_once(
    processes: Processes, endpoint: HttpsEndpoint, gate: threading.Event, number: signal.Signals, code: int
):
    worker = worker_with_open_request(processes, endpoint, WEBHOOKHUB_DRAIN="600")

    worker.signal(number)
    worker.wait_for("process_draining")
    wait_for_echo_time()
    worker.signal(number)

    assert worker.wait() == code
    assert worker.facts("process_stopped") == []


def test_an_idle_loop_exits_at_once_whatever_its_interval(processes: Processes):
    loops = processes.start_loops("--interval", "600")
    for running in loops.values():
        running.wait_for("process_started")

    for running in loops.values():
        running.signal(signal.SIGTERM)

    assert [running.wait() for running in loops.values()] == [0] * len(LOOPS)
    for running in loops.values():
        assert [fact["event"] for fact in running.facts()] == ["process_started", "process_stopped"]
    assert not Process.objects.exists()
