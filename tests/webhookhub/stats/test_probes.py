"""/healthz, /readyz and /metrics as machines ask for them."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from datetime import timedelta
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from tests.conformance import world
from webhookhub.conf import KINDS
from webhookhub.db import clock, errors, vendors
from webhookhub.db.bulk import insert_new
from webhookhub.db.errors import Kind
from webhookhub.models import Process
from webhookhub.stats import readiness

NOBODYS_NAME = "203.0.113.9:8000"


def get(path: str, **headers: str) -> Any:
    """As a probe does: by an address that is no name of the hub."""
    return Client().get(path, headers={"Host": NOBODYS_NAME, **headers})


def beat(kind: str, ago: timedelta = timedelta(0)) -> None:
    row = {"name": f"{kind}@here:{ago}", "kind": kind, "host": "here", "pid": 1, "heartbeat_at": clock.now() - ago}
    insert_new(Process, [row], key=("name",))


def test_healthz_needs_no_database():
    response = get("/healthz")  # a test that may not use the database: a connection would be refused
    assert (response.status_code, response.json()) == (200, {"status": "alive"})
    assert response["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_a_probe_only_reads(path: str):
    response = Client().post(path, headers={"Host": NOBODYS_NAME})
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")


def test_other_paths_still_check_allowed_hosts():
    assert get("/admin/login/").status_code == 400
    assert get("/healthz/").status_code == 400


def test_a_hub_with_all_its_loops_is_ready(committed: None):
    for kind in KINDS:
        beat(kind)
    response = get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ready", "missing": []})


def test_each_silent_kind_of_loop_is_named(committed: None):
    silent = KINDS[:2]
    for kind in KINDS:
        beat(kind, timedelta(seconds=60) if kind in silent else timedelta(0))
    response = get("/readyz")
    assert response.status_code == 503
    missing = [f"no {kind}: no heartbeat in the last 30 s" for kind in silent]
    assert response.json() == {"status": "not ready", "missing": missing}

    for kind in silent:
        beat(kind, timedelta(seconds=1))
    assert get("/readyz").status_code == 200


def test_a_hub_that_is_not_migrated_is_not_ready(committed: None):
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("stats", "0001_initial")
    try:
        response = get("/readyz")
    finally:
        recorder.record_applied("stats", "0001_initial")
    assert response.status_code == 503
    [missing] = response.json()["missing"]
    assert missing == "1 migrations are not applied, starting with stats.0001_initial (run manage.py upgrade)"


def test_a_full_database_is_reported_for_a_minute(committed: None, monkeypatch: pytest.MonkeyPatch):
    for kind in KINDS:
        beat(kind)
    monkeypatch.setitem(errors.last_seen, Kind.FULL, time.monotonic())
    assert get("/readyz").json() == {"status": "not ready", "missing": ["the database is full"]}

    monkeypatch.setitem(errors.last_seen, Kind.FULL, time.monotonic() - 61)
    assert get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        (2013, "the database does not respond"),
        (1045, "the database does not respond"),
        (1290, "the database is read-only"),
        (3032, "the database is offline"),
        (6400, "the database is offline"),
        (1114, "the database is full"),
        (1040, "the database accepts no further connections"),
    ],
)
def test_an_error_of_the_database_is_named_without_its_message(
    code: int, missing: str, monkeypatch: pytest.MonkeyPatch
):
    def fail() -> list[str]:
        raise OperationalError(code, "a secret of the server's")

    monkeypatch.setattr(readiness, "_missing", fail)
    response = get("/readyz")
    assert (response.status_code, response.json()["missing"]) == (503, [missing])


def test_an_exception_that_is_not_of_the_database_is_raised(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readiness, "_missing", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        get("/readyz")


def test_a_check_that_hangs_delays_no_probe_and_is_not_repeated(monkeypatch: pytest.MonkeyPatch):
    released, checks = threading.Event(), []

    def hang() -> list[str]:
        checks.append(threading.current_thread())
        released.wait(60)
        return []

    monkeypatch.setattr(readiness, "_missing", hang)
    monkeypatch.setattr(readiness, "RESPONSE_SECONDS", 0.05)
    for _ in range(3):
        assert get("/readyz").json()["missing"] == ["the database does not respond"]
    assert len(checks) == 1
    assert get("/healthz").status_code == 200

    released.set()
    checks[0].join()
    assert get("/readyz").status_code == 200
    assert len(checks) == 2


def test_a_hub_that_starts_logs_no_error(monkeypatch: pytest.MonkeyPatch, log_stream: io.StringIO):
    monkeypatch.setattr(readiness, "_was_ready", False)
    monkeypatch.setattr(readiness, "_last_missing", [])
    for missing in (["no worker"], ["no worker"], [], ["no worker"], ["the database is full"], []):
        monkeypatch.setattr(readiness, "missing", lambda missing=missing: missing)
        assert get("/readyz").status_code == (503 if missing else 200)
    lines = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("not_ready_yet", "info"),
        ("not_ready", "warning"),
        ("not_ready", "warning"),
    ]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("writable", "blocks", "missing"),
    [(True, 1, None), (False, 1, "the database is read-only"), (True, 0, "the database is full")],
)
def test_the_file_system_of_the_embedded_database(
    committed: None, monkeypatch: pytest.MonkeyPatch, writable: bool, blocks: int, missing: str | None
):
    for kind in KINDS:
        beat(kind)
    monkeypatch.setattr(os, "access", lambda path, mode: writable)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=blocks))
    response = get("/readyz")
    assert response.json()["missing"] == ([] if missing is None else [missing])


@pytest.mark.mysql_family
def test_a_server_that_accepts_writes_is_recognised(db: None):
    """By its variables; nightly tests change them on a server of their own."""
    assert vendors.refuses_writes(connection) is None


def test_a_probe_does_not_change_the_connection_of_the_thread(committed: None):
    usual = connections["default"]
    options = dict(usual.settings_dict["OPTIONS"])
    get("/readyz")
    assert connections["default"] is usual
    assert usual.settings_dict["OPTIONS"] == options


def test_the_refusal_of_metrics_names_the_settings():
    response = get("/metrics")
    assert response.status_code == 403
    assert "WEBHOOKHUB_METRICS_NETWORKS" in response.content.decode()
    assert "WEBHOOKHUB_METRICS_TOKEN" in response.content.decode()


def test_the_metrics_are_text_for_prometheus(committed: None, hub_settings):
    hub_settings(metrics_networks=(ip_network("127.0.0.0/8"),))
    world.publish_some("a")
    response = get("/metrics")
    assert response.status_code == 200
    assert response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "webhookhub_events_waiting 1.0" in response.content.decode().splitlines()
