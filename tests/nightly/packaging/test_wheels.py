"""Both wheels, each installed into an empty environment: the hub delivers, and the client publishes without Django."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tools.demo import certificates
from tools.demo.endpoint import HttpsEndpoint
from tools.support.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 60
PUBLISH = """
import importlib.util, sys
from webhookhub_client import Client
assert importlib.util.find_spec("django") is None
Client(sys.argv[1], sys.argv[2]).publish("order.created", {"sent by": "client"}, external_id="order-1")
"""


class Environment:
    """A virtual environment with the wheel of one project, and an empty working directory."""

    def __init__(self, folder: Path, project: Path, **variables: str) -> None:
        self.work, self._bin = folder / "work", folder / "venv" / "bin"
        self.variables = {"PATH": os.environ["PATH"], **variables}
        self.work.mkdir(parents=True)
        ignored = shutil.ignore_patterns(".venv", ".git", "var", "*.egg-info", "__pycache__")
        shutil.copytree(project, folder / "source", ignore=ignored)
        venv.create(folder / "venv", with_pip=True)
        self.run("pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(folder / "source"))
        [wheel] = folder.glob("*.whl")
        self.run("pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel))

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        command = [str(self._bin / program), *arguments]
        environment = {**self.variables, **variables}
        done = subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, program: str, *arguments: str) -> Iterator[None]:
        process = subprocess.Popen([self._bin / program, *arguments], cwd=self.work, env=self.variables)
        try:
            yield
        finally:
            process.terminate()
            code = process.wait(SECONDS)
        assert code == 0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("client"), ROOT / "webhookhub" / "client")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("hub")
    authority, _ = certificates.write(folder / "certificates")
    return Environment(
        folder,
        ROOT,
        WEBHOOKHUB_CA_BUNDLE=str(authority),
        WEBHOOKHUB_ALLOWED_NETWORKS="127.0.0.0/8",
        WEBHOOKHUB_ALLOWED_PORTS="1024-65535",
    )


def wait_until_served(url: str) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            requests.get(url, timeout=5).raise_for_status()
        except requests.RequestException:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def test_an_installed_hub_delivers_what_an_installed_client_publishes(hub: Environment, client: Environment):
    web = f"http://127.0.0.1:{(port := free_port())}"
    hub.run("webhookhub", "migrate", "-v0")
    scopes = [f"--scope={scope}" for scope in ("events:write", "subscriptions:write", "read")]
    key = json.loads(hub.run("webhookhub", "api_key", "create", "shop", *scopes, "--json"))["key"]
    headers = {"Authorization": f"Bearer {key}"}
    certificate = hub.work.parent / "certificates" / certificates.SERVER

    with HttpsEndpoint(certificate) as endpoint, hub.running("webhookhub", "run_hub", "--web", f"127.0.0.1:{port}"):
        wait_until_served(f"{web}/admin/login/")
        subscription = {"event_type": "order.created", "callback_url": endpoint.url()}
        created = requests.post(f"{web}/api/v1/subscriptions", json=subscription, headers=headers, timeout=SECONDS)
        verify = f"{web}/api/v1/subscriptions/{created.json()['id']}/verify"
        assert requests.post(verify, headers=headers, timeout=SECONDS).json()["verified"]

        hub.run("webhookhub", "publish_event", "order.created", '{"sent by": "command"}')
        client.run("python", "-c", PUBLISH, web, key)

        received = endpoint.wait_for(2, SECONDS)
        assert {json.loads(request.body)["data"]["sent by"] for request in received} == {"command", "client"}
        check_console(web)
    hub.run("webhookhub", "audit")


def check_console(web: str) -> None:
    """The page, its styles and its translation are served."""
    page = requests.get(f"{web}/admin/login/", headers={"Accept-Language": "zh-hant"}, timeout=SECONDS)
    assert "登入" in page.text
    styles = re.findall(r'<link[^>]+href="([^"]+\.css[^"]*)"', page.text)
    assert any("console/console.css" in style for style in styles)
    for style in styles:
        response = requests.get(f"{web}{style}", timeout=SECONDS)
        assert response.status_code == 200, style
        assert response.text, style


def test_the_hub_contains_no_tools_no_tests_and_the_sample_workflows(hub: Environment):
    script = "import importlib.util as i; print([n for n in ('tools', 'tests', 'webhookhub.client') if i.find_spec(n)])"

    assert hub.run("python", "-c", script).strip() == "[]"
    assert hub.run("webhookhub", "workflows", "list") == ""
    samples = hub.run("python", "-c", "import workflows; print(workflows.__path__[0])").strip() + "/samples"
    listed = hub.run("webhookhub", "workflows", "list", WEBHOOKHUB_WORKFLOW_DEFINITIONS=samples)
    assert "order_submission" in listed


def test_the_client_needs_requests_only(client: Environment):
    needed = {"webhookhub-client", "requests", "certifi", "charset-normalizer", "idna", "urllib3", "pip", "setuptools"}
    installed = {package["name"] for package in json.loads(client.run("pip", "list", "--format=json"))}

    assert {name.replace("_", "-") for name in installed} <= needed
