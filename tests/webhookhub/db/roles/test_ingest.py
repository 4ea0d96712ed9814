"""The web server stores the API's events with a database user of its own; the console's user cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import requests

from api import keys
from api.scopes import EVENTS_WRITE
from events.models import Event, RoutingInbox
from tests.processes.support import Processes, Running, until
from tools.support.ports import free_port

from .accounts import PASSWORD, execute, url_of, user_name

pytestmark = [pytest.mark.mysql_family, pytest.mark.usefixtures("granted")]
NO_LOOPS = ("--routers=0", "--orchestrators=0", "--workers=0", "--cleaners=0", "--workflows=0")
INGEST = "WEBHOOKHUB_INGEST_DATABASE_URL"


def serve(processes: Processes, **environment: str) -> tuple[Running, str]:
    address = f"http://127.0.0.1:{free_port()}"
    hub = processes.start("run_hub", *NO_LOOPS, "--web", address.partition("//")[2], **environment)

    def responds() -> bool:
        try:
            return requests.get(f"{address}/healthz", timeout=5).ok
        except (requests.ConnectionError, requests.Timeout):
            return False

    until(responds, "the web server responds")
    return hub, f"{address}/api/v1/events"


@pytest.fixture
def headers(committed: None) -> dict[str, str]:
    _, text = keys.create("shop", [EVENTS_WRITE], by="anna", source="shop")
    return {"Authorization": f"Bearer {text}"}


def event(n: int) -> dict[str, object]:
    return {"event_type": "order.created", "external_id": str(n), "payload": {"n": n}}


@pytest.mark.requirement("R3-4.1a", "R3-4.1b")
@pytest.mark.requirement("R4-8.1a")
def test_events_are_stored_by_a_user_that_may_do_nothing_else(processes: Processes, headers: dict[str, str]):
    urls = {"WEBHOOKHUB_WEB_DATABASE_URL": url_of("console"), INGEST: url_of("event_ingest_writer")}
    hub, address = serve(processes, **urls)

    sent = [requests.post(address, json=event(1), headers=headers, timeout=30).status_code for _ in range(2)]
    batch = requests.post(f"{address}/batch", json={"events": [event(1), event(2)]}, headers=headers, timeout=30)

    assert sent == [201, 200]
    assert [result["status"] for result in batch.json()["results"]] == [200, 201]
    assert Event.objects.count() == RoutingInbox.objects.count() == 2
    assert hub.stop() == 0
    assert "denied" not in hub.errors


@pytest.mark.requirement("R4-8.1a")
def test_the_user_of_the_console_stores_no_events(processes: Processes, headers: dict[str, str]):
    hub, address = serve(processes, WEBHOOKHUB_WEB_DATABASE_URL=url_of("console"))
    denied = {"user": user_name("console"), "statement": "INSERT", "table": "events"}
    at_start = hub.wait_for("database_denied")[0]

    response = requests.post(address, json=event(1), headers=headers, timeout=30)

    assert (response.status_code, Event.objects.count()) == (503, 0)
    assert response.json()["detail"] == f"The hub is not permitted to store events. Its operator must set {INGEST}."
    assert at_start.items() >= denied.items()
    assert INGEST in at_start["advice"]
    requested = until(
        lambda: [line for line in hub.wait_for("database_denied") if "advice" not in line], "it is logged"
    )
    assert requested[0].items() >= denied.items()
    assert hub.stop() == 0
    assert "Traceback" not in hub.errors


def test_a_user_that_may_store_events_is_not_reported(processes: Processes, headers: dict[str, str]):
    hub, address = serve(
        processes, WEBHOOKHUB_WEB_DATABASE_URL=url_of("console"), **{INGEST: url_of("event_ingest_writer")}
    )

    assert requests.post(address, json=event(1), headers=headers, timeout=30).status_code == 201
    assert hub.stop() == 0
    assert "database_denied" not in hub.errors


def test_only_the_web_server_gets_the_url(processes: Processes):
    loops = [name for name in NO_LOOPS if "worker" not in name]
    urls = {"WEBHOOKHUB_WORKER_DATABASE_URL": url_of("worker"), INGEST: url_of("event_ingest_writer")}
    hub = processes.start("run_hub", *loops, "--web", f"127.0.0.1:{free_port()}", **urls)

    def users_of_children() -> dict[str, set[str]]:
        found = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
                if parent == hub.pid:
                    command = path.with_name("cmdline").read_text()
                    environment = path.with_name("environ").read_text()
                    found["web" if "run_web" in command else "worker"] = set(
                        re.findall(r"mysql://([^:]+):", environment)
                    )
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found

    children = until(lambda: len(users := users_of_children()) == 2 and all(users.values()) and users, "both start")

    assert children["worker"] == {user_name("worker")}
    assert user_name("event_ingest_writer") in children["web"]
    assert hub.stop() == 0


def test_a_lost_ingest_database_is_a_503(processes: Processes, headers: dict[str, str]):
    hub, address = serve(processes, **{INGEST: url_of("event_ingest_writer")})
    account = f"`{user_name('event_ingest_writer')}`@`%`"
    execute(f"ALTER USER {account} WITH MAX_QUERIES_PER_HOUR 1")
    try:
        response = requests.post(address, json=event(1), headers=headers, timeout=60)
    finally:
        execute(f"ALTER USER {account} WITH MAX_QUERIES_PER_HOUR 0")

    assert (response.status_code, Event.objects.count()) == (503, 0)
    assert requests.post(address, json=event(1), headers=headers, timeout=60).status_code == 201
    assert hub.stop() == 0


def test_a_refused_ingest_user_is_not_ready(processes: Processes):
    _, address = serve(processes, **{INGEST: url_of("event_ingest_writer").replace(PASSWORD, "wrong")})

    response = requests.get(address.replace("/api/v1/events", "/readyz"), timeout=30)

    assert (response.status_code, response.json()["missing"]) == (503, ["the database does not respond"])


def test_another_database_is_refused(processes: Processes):
    other = url_of("event_ingest_writer").rpartition("/")[0] + "/information_schema"
    hub = processes.start("run_hub", *NO_LOOPS, "--web", f"127.0.0.1:{free_port()}", **{INGEST: other})

    assert hub.wait() == 78
    assert f"The hub is not configured: {INGEST} must name the same host, port and database" in hub.errors
    check = processes.start("check", "--database", "ingest", **{INGEST: other})
    assert check.wait() != 0
    assert "webhookhub.E022" in check.errors


def test_the_check_of_the_ingest_database_passes(processes: Processes):
    check = processes.start("check", "--database", "ingest", **{INGEST: url_of("event_ingest_writer")})

    assert check.wait() == 0, check.errors
