"""The nginx and HAProxy samples as real proxies in front of a real hub: TLS, log-in, limits, closed metrics."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.processes.support import Processes, until
from tools.demo import certificates
from tools.support.ports import free_port

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
HOST = "hub.example.com"
PASSWORD = "a long password of the console"
NGINX = """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/webhookhub.conf;
}}
"""
# The samples' time-out for a request's headers, and some more for a busy machine.
HEADER_SECONDS = 10
CLOSED_SECONDS = 40


@dataclass
class Site:
    """A proxy in front of a hub."""

    https: int
    http: int
    hub: str
    authority: Path

    def request(self, method: str, path: str, **options: object) -> requests.Response:
        headers = {"Host": HOST, **options.pop("headers", {})}  # type: ignore[dict-item]
        url = f"https://127.0.0.1:{self.https}{path}"
        return requests.request(method, url, headers=headers, verify=str(self.authority), timeout=60, **options)  # type: ignore[arg-type]

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.authority))
        plain = socket.create_connection(("127.0.0.1", self.https), timeout=CLOSED_SECONDS)
        return context.wrap_socket(plain, server_hostname="127.0.0.1")


def nginx(folder: Path, certificate: Path, ports: dict[str, int]) -> list[str]:
    text = (DEPLOY / "nginx" / "webhookhub.conf").read_text()
    text = re.sub(r"\n *listen \[::\].*", "", text)
    text = re.sub(r"listen (80|443)", lambda match: f"listen 127.0.0.1:{ports[match[1]]}", text)
    text = re.sub(r"/etc/ssl/webhookhub/\w+\.pem", str(certificate), text)
    (folder / "webhookhub.conf").write_text(text.replace("127.0.0.1:8000", f"127.0.0.1:{ports['hub']}"))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


def haproxy(folder: Path, certificate: Path, ports: dict[str, int]) -> list[str]:
    text = (DEPLOY / "haproxy" / "haproxy.cfg").read_text()
    text = re.sub(r"bind :(80|443)", lambda match: f"bind 127.0.0.1:{ports[match[1]]}", text)
    text = re.sub(r"/etc/ssl/webhookhub/\w+\.pem", str(certificate), text)
    file = folder / "haproxy.cfg"
    text = text.replace("check port 8001", f"check port {ports['probes']}")
    file.write_text(text.replace("127.0.0.1:8000", f"127.0.0.1:{ports['hub']}"))
    checked = subprocess.run([_program("haproxy"), "-c", "-f", str(file)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr
    return ["haproxy", "-db", "-f", str(file)]


PROXIES = {"nginx": nginx, "haproxy": haproxy}


def _program(name: str) -> str:
    return shutil.which(name, path="/usr/sbin:/usr/local/sbin:/usr/bin") or pytest.skip(f"{name} is not installed")


@pytest.fixture(params=list(PROXIES))
def site(request: pytest.FixtureRequest, processes: Processes, tmp_path: Path) -> Iterator[Site]:
    program = _program(request.param)
    authority, certificate = certificates.write(tmp_path / "tls")
    ports = {name: free_port() for name in ("80", "443", "hub", "probes")}
    # Open for everybody who reaches the hub itself: what is refused is refused by the proxy.
    processes.start(
        "run_web",
        f"127.0.0.1:{ports['hub']}",
        f"--probes=127.0.0.1:{ports['probes']}",
        WEBHOOKHUB_ALLOWED_HOSTS=HOST,
        WEBHOOKHUB_PUBLIC_URL=f"https://{HOST}",
        WEBHOOKHUB_TRUSTED_PROXIES="127.0.0.1",
        WEBHOOKHUB_METRICS_NETWORKS="127.0.0.0/8",
    )
    site = Site(ports["443"], ports["80"], f"http://127.0.0.1:{ports['hub']}", authority)
    _, *arguments = PROXIES[request.param](tmp_path, certificate, ports)
    with (tmp_path / "proxy.log").open("wb") as log:
        proxy = subprocess.Popen([program, *arguments], stdout=log, stderr=log)
    try:
        until(lambda: _responds(site), "the hub responds through the proxy")
        yield site
    finally:
        proxy.terminate()
        proxy.wait(30)


def _responds(site: Site) -> bool:
    try:
        return site.request("GET", "/healthz").ok
    except requests.RequestException:
        return False


def api_key(processes: Processes) -> str:
    created = processes.start("api_key", "create", "shop", "--scope", "events:write", "--json")
    assert created.wait() == 0
    return str(json.loads(created.output)["key"])


def test_people_log_in_and_producers_send_events(site: Site, processes: Processes):
    options = ("--noinput", "--username=ada", "--email=ada@example.com")
    assert processes.start("createsuperuser", *options, DJANGO_SUPERUSER_PASSWORD=PASSWORD).wait() == 0
    page = site.request("GET", "/admin/login/")
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text))
    form = {"csrfmiddlewaretoken": token, "username": "ada", "password": PASSWORD, "next": "/admin/"}
    origin = {"Origin": f"https://{HOST}", "Referer": f"https://{HOST}/admin/login/"}
    logged_in = site.request(
        "POST", "/admin/login/", data=form, headers=origin, cookies=page.cookies.get_dict(), allow_redirects=False
    )
    assert (logged_in.status_code, logged_in.headers["Location"]) == (302, "/admin/")
    assert logged_in.headers["Strict-Transport-Security"].startswith("max-age=")

    bearer = {"Authorization": f"Bearer {api_key(processes)}"}
    event = {"event_type": "order.created", "payload": {"text": "x" * 100_000}}
    assert site.request("POST", "/api/v1/events", json=event, headers=bearer).status_code == 201


def test_a_full_batch_passes_and_a_larger_body_does_not(site: Site):
    """Without a key, the hub itself refuses with 401."""
    passed = site.request(
        "POST", "/api/v1/events/batch", data=b" " * (8 * 2**20), headers={"Content-Type": "application/json"}
    )
    assert passed.status_code == 401

    try:
        refused = site.request("POST", "/api/v1/events/batch", data=b" " * (10 * 2**20))
    except requests.ConnectionError:
        return  # closed while the client was still sending
    assert refused.status_code == 413


def test_metrics_are_closed_in_every_spelling(site: Site):
    assert requests.get(f"{site.hub}/metrics", timeout=30).ok
    for path in ("/metrics", "/metrics?a=b", "/%6detrics", "/m%65trics", "/metrics%3Fa"):
        with site.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            response = b"".join(iter(lambda: connection.recv(65536), b""))
        assert b" 403 " in response[:20] or b" 404 " in response[:20], path
        assert b"webhookhub_processes" not in response, path


def test_plain_http_is_redirected(site: Site):
    response = requests.get(
        f"http://127.0.0.1:{site.http}/admin/?a=b", headers={"Host": HOST}, allow_redirects=False, timeout=30
    )

    assert (response.status_code, response.headers["Location"]) == (301, f"https://{HOST}/admin/?a=b")


def test_slow_clients_are_disconnected_and_others_served(site: Site):
    started = time.monotonic()
    slow = [site.connect() for _ in range(50)]
    for connection in slow:
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ".encode())
    assert site.request("GET", "/healthz").ok

    # Either closed, or a 408 and then closed.
    for connection in slow:
        assert b" 200 " not in b"".join(iter(lambda: _received(connection), b""))  # noqa: B023
    assert time.monotonic() - started >= HEADER_SECONDS - 1


def _received(connection: ssl.SSLSocket) -> bytes:
    try:
        return connection.recv(4096)
    except (ConnectionResetError, ssl.SSLEOFError):
        return b""
