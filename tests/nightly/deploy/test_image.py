"""The image and the services of compose.yaml, without a container engine.

The Dockerfile's steps run in a bare Debian. Then the services' own commands run in the result as its user, with a
read-only root and the volumes of compose.yaml, until an event has reached the sample receiver.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.deploy.dockerfile import ROOT
from tests.processes.support import until
from tools.support.database_server import PrivateServer
from tools.support.ports import free_port

from .image import Image

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
USER = 10001
STOP_SECONDS = 60


def test_it_runs_as_an_unprivileged_user_that_can_write_nothing(image: Image):
    assert image.run("id", "-u").strip() == str(USER)
    # Folders that it may not even list are skipped.
    assert image.run("sh", "-c", "find / -xdev -writable -type f 2>/dev/null || true") == ""


def test_it_holds_neither_keys_nor_compilers_nor_pip(image: Image):
    assert image.run("ls", "-A", "/srv/webhookhub").split() == [".env", "staticfiles", "var"]
    assert image.run("ls", "-A", "/srv/webhookhub/var", "/etc/webhookhub").split() == [
        "/etc/webhookhub:",
        "/srv/webhookhub/var:",
    ]
    assert not (image.root / "usr" / "bin" / "gcc").exists()
    assert not list((image.root / "opt" / "webhookhub").rglob("pip"))


def test_static_files_are_collected_and_compressed(image: Image):
    files = image.root / "srv" / "webhookhub" / "staticfiles" / "console"

    assert (files / "console.css").exists()
    assert (files / "console.css.gz").exists()


class Compose:
    """Runs services of compose.yaml in the image, with their own ports, on one machine."""

    def __init__(self, image: Image, folder: Path) -> None:
        self._image, self._folder = image, folder
        self.ports = {"8000": free_port(), "8001": free_port(), "8443": free_port()}
        self.settings = {"WEBHOOKHUB_PROBES": f"0.0.0.0:{self.ports['8001']}"}

    def volume(self, name: str) -> Path:
        """A new volume belongs to the image's user, as the folder of the image that it covers."""
        path = self._folder / name
        if not path.exists():
            path.mkdir(mode=0o750)
            os.chown(path, USER, USER)
        return path

    def _volumes(self, service: dict[str, Any]) -> list[tuple[Path, str, bool]]:
        found = []
        for text in service["volumes"]:
            source, target, *mode = text.split(":")
            path = (ROOT / "deploy" / source).resolve() if source.startswith(".") else self.volume(source)
            inside = self._image.root / target[1:]
            if not inside.exists():  # an engine creates mount points
                inside.mkdir() if path.is_dir() else inside.touch()
            found.append((path, target, mode != ["ro"]))
        return found

    def command(self, name: str, arguments: list[str]) -> list[str]:
        service = SERVICES[name]
        with_ports = [re.sub("8000|8001|8443", lambda match: str(self.ports[match[0]]), each) for each in arguments]
        volumes = self._volumes(service)
        return self._image.command(with_ports, read_only=service["read_only"], volumes=volumes, settings=self.settings)

    def arguments(self, name: str) -> list[str]:
        entrypoint = SERVICES[name].get("entrypoint") or self._image.stage.command("ENTRYPOINT")
        command = SERVICES[name].get("command") or []
        return [*entrypoint, *(each.replace("${WORKERS:-1}", "1") for each in command)]

    def run(self, name: str, arguments: list[str] | None = None) -> str:
        command = self.command(name, arguments or self.arguments(name))
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
        return result.stdout

    def is_healthy(self, name: str) -> bool:
        check = SERVICES[name].get("healthcheck", {}).get("test", [])[1:] or self._image.stage.command("HEALTHCHECK")
        return subprocess.run(self.command(name, check), capture_output=True).returncode == 0

    @contextmanager
    def running(self, name: str) -> Iterator[Path]:
        """Yields the file of its output."""
        log = self._folder / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(self.command(name, self.arguments(name)), stdout=file, stderr=file)
        try:
            yield log
        finally:
            process.terminate()
            code = process.wait(STOP_SECONDS)
        assert code == 0, log.read_text()[-3000:]


def test_the_services_of_compose_deliver_an_event(image: Image, server: PrivateServer, tmp_path: Path):
    compose = Compose(image, tmp_path)
    (image.root / "etc" / "hosts").write_text("127.0.0.1 localhost database receiver.internal\n")

    compose.run("keys")
    settings = compose.volume("settings") / "hub.env"
    first = settings.read_text()
    compose.run("keys")
    assert settings.read_text() == first
    assert settings.stat().st_mode & 0o777 == 0o600

    password = (compose.volume("database-password") / "password").read_text()
    server.execute(
        f"CREATE USER webhookhub@'%' IDENTIFIED BY '{password}'; GRANT ALL ON webhookhub.* TO webhookhub@'%'"
    )
    [url] = re.findall(r"^DATABASE_URL=(.*)$", first, re.MULTILINE)
    # Other ports and networks than in compose.yaml: one machine has them all.
    compose.settings |= {
        "DATABASE_URL": url.replace(":3306/", f":{server.port}/"),
        "WEBHOOKHUB_ALLOWED_NETWORKS": "127.0.0.0/8",
        "WEBHOOKHUB_ALLOWED_PORTS": str(compose.ports["8443"]),
    }
    compose.run("migrate")
    compose.run("migrate")

    with ExitStack() as stack:
        received = stack.enter_context(compose.running("receiver"))
        until(lambda: compose.is_healthy("receiver"), "the receiver is healthy")
        compose.settings["WEBHOOKHUB_CA_BUNDLE"] = "/srv/webhookhub/var/authority.pem"
        stack.enter_context(compose.running("hub"))
        until(lambda: compose.is_healthy("hub"), "the hub is healthy")
        web = f"http://127.0.0.1:{compose.ports['8000']}"
        until(lambda: requests.get(f"{web}/readyz", timeout=10).ok, "the hub is ready")

        check_console(web, (compose.volume("settings") / "admin-password").read_text().strip())
        scopes = [f"--scope={scope}" for scope in ("events:write", "subscriptions:write", "read")]
        created = compose.run("hub", ["webhookhub", "api_key", "create", "shop", "--json", *scopes])
        headers = {"Authorization": f"Bearer {json.loads(created)['key']}"}
        subscription = {
            "event_type": "order.created",
            "callback_url": f"https://receiver.internal:{compose.ports['8443']}/hook",
        }
        made = requests.post(f"{web}/api/v1/subscriptions", json=subscription, headers=headers, timeout=60)
        assert made.status_code == 201, made.text
        verified = requests.post(f"{web}/api/v1/subscriptions/{made.json()['id']}/verify", headers=headers, timeout=60)
        assert verified.json()["verified"], verified.text
        event = {"event_type": "order.created", "payload": {"order": "from compose"}}
        assert requests.post(f"{web}/api/v1/events", json=event, headers=headers, timeout=60).status_code == 201
        until(lambda: "from compose" in received.read_text(), "the receiver prints the event")


def check_console(web: str, password: str) -> None:
    session = requests.Session()
    page = session.get(f"{web}/admin/login/", timeout=60)
    [style] = re.findall(r'href="([^"]+console/console\.css[^"]*)"', page.text)
    assert session.get(f"{web}{style}", timeout=60).headers["Content-Encoding"] == "gzip"
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text))
    form = {"csrfmiddlewaretoken": token, "username": "admin", "password": password, "next": "/admin/"}
    logged_in = session.post(f"{web}/admin/login/", data=form, allow_redirects=False, timeout=60)
    assert (logged_in.status_code, logged_in.headers.get("Location")) == (302, "/admin/")
    assert session.get(f"{web}/admin/", timeout=60).status_code == 200
