"""run_hub: all steps in one process under a supervisor, which restarts its children and leaves none behind."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from events.intake import publish
from events.models import RoutingInbox
from events.routing import Router
from sagas.dispatch import dispatch
from sagas.models import Saga
from tests.factories import SubscriptionFactory
from tools.demo.endpoint import HttpsEndpoint
from webhookhub.conf import KINDS
from webhookhub.models import Process

from . import traffic
from .outages import migrate, seed
from .support import Processes, Running, is_running, until
from .test_stopping import LONG_TIMEOUTS, wait_for_echo_time

ONLY_WORKER = ("--routers=0", "--orchestrators=0", "--cleaners=0", "--workflows=0")


def registered() -> dict[int, list[str]]:
    """The kinds of each process, by its pid."""
    kinds: dict[int, list[str]] = {}
    for pid, kind in Process.objects.order_by("kind").values_list("pid", "kind"):
        kinds.setdefault(pid, []).append(kind)
    return kinds


def children(hub: Running) -> list[int]:
    """The supervisor's children, registered or not."""
    return [int(pid) for pid in Path(f"/proc/{hub.pid}/task/{hub.pid}/children").read_text().split()]


@pytest.mark.requirement("R4-1.2b")
def test_a_hub_delivers_restarts_a_dead_child_and_stops_with_all_its_children(
    processes: Processes, endpoint: HttpsEndpoint
):
    traffic.subscribe(endpoint)
    hub = processes.start("run_hub", "--workers", "2")
    until(lambda: sorted(registered().values(), key=len) == [["worker"], sorted(KINDS)], "all steps register")
    [started] = [fact for fact in hub.facts("process_started") if fact["process"] == "hub"]
    assert started["children"] == "hub, worker 2"
    assert sorted(registered()) == sorted(children(hub))

    [victim] = [pid for pid, kinds in registered().items() if "router" in kinds]
    os.kill(victim, signal.SIGKILL)
    traffic.publish(30)
    until(traffic.all_ended, "every delivery ends, with the new process")
    traffic.check_each_ended_once(endpoint)
    assert len([pid for pid, kinds in registered().items() if "router" in kinds and pid != victim]) == 1
    assert [fact["child"] for fact in hub.facts("process_restarted")] == ["hub"]
    assert hub.facts("process_restarted")[0]["exit_code"] == -signal.SIGKILL

    family = children(hub)
    assert len(family) == 2
    assert hub.stop() == 0
    assert [pid for pid in family if is_running(pid)] == []
    assert set(registered()) == {victim}, "stopped processes removed their rows"


@pytest.mark.parametrize("interval", ["0.5", "3600"], ids=["polls", "seldom polls"])
def test_one_process_delivers_an_event_from_end_to_end(processes: Processes, endpoint: HttpsEndpoint, interval: str):
    SubscriptionFactory.create(callback_url=endpoint.url("/hook"))
    hub = processes.start("run_hub", WEBHOOKHUB_POLL_INTERVAL=interval)
    hub.wait_for("process_started", 1 + len(KINDS))

    for count in range(1, 4):
        publish("order.created", {"number": count})
        until(lambda: Saga.objects.filter(status="Completed").count() == count, "delivered and settled")  # noqa: B023

    assert len(endpoint.received) == 3
    assert len(children(hub)) == 1
    assert hub.stop() == 0


def test_a_stopping_hub_waits_for_the_response_and_settles_it(
    processes: Processes, endpoint: HttpsEndpoint, gate: threading.Event
):
    SubscriptionFactory(callback_url=endpoint.url())
    hub = processes.start("run_hub", **LONG_TIMEOUTS, WEBHOOKHUB_DRAIN="600")
    hub.wait_for("process_started", 1 + len(KINDS))
    publish("order.created", {})
    endpoint.wait_for(1)
    until(lambda: not RoutingInbox.objects.exists(), "the router has removed the event from the inbox")

    hub.signal(signal.SIGTERM)
    draining = hub.wait_for("process_draining", 2)
    assert [fact["pending"] for fact in draining if fact["process"] != "hub"] == ["1 delivery in flight"]
    gate.set()

    assert hub.wait() == 0
    assert Saga.objects.get().status == "Completed"
    assert len(endpoint.received) == 1
    assert not Process.objects.exists()


@pytest.mark.sqlite_only
def test_a_hub_waits_for_an_embedded_database_that_does_not_exist_yet(
    processes: Processes, endpoint: HttpsEndpoint, tmp_path: Path
):
    aside, place = tmp_path / "aside", tmp_path / "place"
    aside.mkdir()
    migrate(processes, f"sqlite:///{aside / 'hub.sqlite3'}")
    seed(processes, f"sqlite:///{aside / 'hub.sqlite3'}", endpoint, 1)

    hub = processes.start("run_hub", DATABASE_URL=f"sqlite:///{place / 'hub.sqlite3'}")
    hub.wait_for("database_lost", 2)
    aside.rename(place)

    hub.wait_for("database_reconnected")
    endpoint.wait_for(1)
    assert hub.stop() == 0
    assert hub.facts("process_failed") == []
    assert hub.facts("process_restarted") == []


def test_children_end_when_their_supervisor_is_killed(processes: Processes):
    hub = processes.start("run_hub", *ONLY_WORKER)
    until(lambda: len(registered()) == 1, "the worker registers")
    family = children(hub)
    assert len(family) == 1

    hub.kill()

    until(lambda: not any(is_running(pid) for pid in family), "all children end")
    assert registered() == {}, "they removed their rows"


def test_starting_children_end_with_their_supervisor(processes: Processes):
    hub = processes.start("run_hub", *ONLY_WORKER)
    family = until(lambda: children(hub), "the first child is started")

    hub.kill()

    until(lambda: not any(is_running(pid) for pid in family), "all children end")


def test_a_second_signal_ends_the_hub_and_its_children_at_once(
    processes: Processes, endpoint: HttpsEndpoint, gate: threading.Event
):
    SubscriptionFactory(callback_url=endpoint.url())
    publish("order.created", {})
    Router().route(10)
    dispatch(10)
    hub = processes.start("run_hub", *ONLY_WORKER, **LONG_TIMEOUTS, WEBHOOKHUB_DRAIN="600")
    endpoint.wait_for(1)
    family = children(hub)

    hub.signal(signal.SIGTERM)
    hub.wait_for("process_draining", 2)  # the hub's and the worker's
    wait_for_echo_time()
    hub.signal(signal.SIGTERM)

    assert hub.wait() == 143
    until(lambda: not any(is_running(pid) for pid in family), "all children end")


BAD = {
    "--workers=-1": "--workers must be a number from 0 to 64, not -1.",
    "--routers=65": "--routers must be a number from 0 to 64, not 65.",
    "--cleaners=two": "invalid int value: 'two'",
    "--web=127.0.0.1": "--web must be a host and a port, such as 127.0.0.1:8000, not '127.0.0.1'.",
    "--web=localhost": "--web must be a host and a port",
    "--web=:8000": "--web must be a host and a port",
    "--web=localhost:65536": "--web must be a host and a port",
    "--web=": "--web must be a host and a port",
    "--probes=127.0.0.1:8001": "--probes needs --web",
}


@pytest.mark.parametrize("option", BAD)
def test_a_bad_option_is_refused(option: str):
    with pytest.raises(CommandError, match=re.escape(BAD[option])) as refused:
        call_command("run_hub", option)
    assert refused.value.returncode == (1 if "invalid int" in BAD[option] else 2)  # argparse itself exits with 2


def test_a_misconfigured_child_ends_the_whole_hub(processes: Processes, tmp_path: Path):
    hub = processes.start("run_hub", *ONLY_WORKER, DATABASE_URL=f"sqlite:///{tmp_path / 'empty.sqlite3'}")

    assert hub.wait() == 78
    assert "migrations are not applied" in hub.errors
    assert "The hub cannot run like this; the lines above say why." in hub.errors
    assert "Traceback" not in hub.errors


def test_a_hub_whose_processes_would_not_share_one_database_is_refused(processes: Processes):
    hub = processes.start(
        "run_hub", DATABASE_URL="", WEBHOOKHUB_WORKER_DATABASE_URL=processes.environment["DATABASE_URL"]
    )

    assert hub.wait() == 78
    assert "Some processes have a database URL of their own and others none: set DATABASE_URL, or " in hub.errors
    assert "WEBHOOKHUB_ROUTER_DATABASE_URL" in hub.errors
    assert "WEBHOOKHUB_WORKER_DATABASE_URL" not in hub.errors


def test_a_wrong_url_of_one_process_is_reported_before_any_process_starts(processes: Processes):
    hub = processes.start("run_hub", WEBHOOKHUB_WORKER_DATABASE_URL="foo")

    assert hub.wait() == 78
    assert "WEBHOOKHUB_WORKER_DATABASE_URL cannot be read" in hub.errors
    assert "process_started" not in hub.errors
