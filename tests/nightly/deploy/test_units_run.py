"""The units under a real systemd: the confined hub delivers, by one unit and by separate ones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.processes.support import until
from tools.demo.endpoint import HttpsEndpoint
from tools.support.database_server import PrivateServer
from tools.support.ports import free_port
from webhookhub.conf import KINDS
from webhookhub.crypto import new_key

from . import image as builder
from .image import Image
from .machine import Machine

PROGRAM = "/opt/webhookhub/bin/webhookhub"
LOOPS = [f"webhookhub-loop@{kind}" for kind in (*KINDS, "worker-2")]


@pytest.fixture
def machine(image: Image, server: PrivateServer, certificate_files: tuple[Path, Path]) -> Iterator[Machine]:
    if subprocess.run(["unshare", "--mount", "mount", "-t", "cgroup2", "none", "/mnt"], capture_output=True).returncode:
        pytest.skip("needs control groups, version 2")
    with builder.temporary("machine") as folder:
        machine = Machine(image, folder)
        settings = {
            "DATABASE_URL": server.url(),
            "WEBHOOKHUB_SECRET_KEY": "a long random text of this test",
            "WEBHOOKHUB_ENCRYPTION_KEYS": new_key(),
            "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
            "WEBHOOKHUB_ALLOWED_PORTS": "1024-65535",
            "WEBHOOKHUB_CA_BUNDLE": "/etc/webhookhub/authority.pem",
        }
        machine.configure("authority.pem", certificate_files[0].read_text())
        machine.configure("hub.env", "".join(f"{name}={value}\n" for name, value in settings.items()))
        with machine:
            yield machine


def ready(web: str) -> bool:
    try:
        return requests.get(f"{web}/readyz", timeout=10).ok
    except requests.ConnectionError:
        return False


def test_the_confined_hub_delivers(machine: Machine, certificate_files: tuple[Path, Path]):
    port = free_port()
    web = f"http://127.0.0.1:{port}"
    machine.override("webhookhub-hub", f"{PROGRAM} run_hub --workers 2 --web 127.0.0.1:{port}")
    machine.override("webhookhub-web", f"{PROGRAM} run_web 127.0.0.1:{port}")
    machine.run("systemctl", "daemon-reload")
    machine.hub("migrate", "-v0")
    scopes = [f"--scope={scope}" for scope in ("events:write", "subscriptions:write", "read")]
    headers = {
        "Authorization": f"Bearer {json.loads(machine.hub('api_key', 'create', 'shop', '--json', *scopes))['key']}"
    }

    def publish(name: str) -> None:
        event = {"event_type": "order.created", "payload": {"by": name, "text": "x" * 100_000}}
        assert requests.post(f"{web}/api/v1/events", json=event, headers=headers, timeout=60).status_code == 201

    with HttpsEndpoint(certificate_files[1]) as endpoint:
        machine.run("systemctl", "start", "webhookhub-hub")
        until(lambda: ready(web), "the hub is ready")
        body = {"event_type": "order.created", "callback_url": endpoint.url()}
        made = requests.post(f"{web}/api/v1/subscriptions", json=body, headers=headers, timeout=60).json()
        verify = f"{web}/api/v1/subscriptions/{made['id']}/verify"
        assert requests.post(verify, headers=headers, timeout=60).json()["verified"]
        publish("one unit")
        endpoint.wait_for(1, 60)
        [pid, restarts] = machine.show("webhookhub-hub", "MainPID", "NRestarts")
        status = machine.run("cat", f"/proc/{pid}/status")
        assert restarts == "0"
        assert "Seccomp:\t2" in status
        assert "NoNewPrivs:\t1" in status
        assert "CapBnd:\t0000000000000000" in status
        machine.run("systemctl", "stop", "webhookhub-hub")
        assert machine.show("webhookhub-hub", "Result", "ExecMainStatus") == ["success", "0"]

        machine.run("systemctl", "start", "webhookhub-web", *LOOPS)
        until(lambda: ready(web), "the separate units are ready")
        publish("separate units")
        received = endpoint.wait_for(2, 60)
        assert [json.loads(each.body)["data"]["by"] for each in received] == ["one unit", "separate units"]
        assert [machine.show(unit, "ActiveState", "NRestarts") for unit in LOOPS] == [["0", "active"]] * len(LOOPS)

    machine.configure("worker-9.env", "WEBHOOKHUB_LEASE=1\n")
    machine.run("systemctl", "start", "webhookhub-loop@worker-9")
    wrong = "webhookhub-loop@worker-9"
    until(lambda: machine.show(wrong, "ActiveState") == ["failed"], "a wrong setting ends the unit for good")
    assert machine.show(wrong, "ExecMainStatus", "NRestarts") == ["0", "78"]
