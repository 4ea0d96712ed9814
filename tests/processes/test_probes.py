"""/healthz, /readyz and /metrics of a real web server, with real loops and a database that stops responding."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
import requests

from tools.support.ports import free_port
from tools.support.proxy import Proxy
from webhookhub.conf import KINDS
from webhookhub.stats.probes import METRICS_SECONDS
from webhookhub.web_server import MAX_CONNECTIONS, THREADS

from .support import Processes, database_url, until

PROBE_SECONDS = 2.0


def addresses() -> tuple[str, str]:
    return f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"


def web(processes: Processes, **environment: str) -> str:
    """Starts a web server like run_hub does; returns its address when it responds."""
    port = free_port()
    command = ["-m", "gunicorn", "webhookhub.wsgi", "--bind", f"127.0.0.1:{port}", "--threads", "4"]
    processes.execute(command, **environment)
    address = f"http://127.0.0.1:{port}"

    def alive() -> bool:
        try:
            return requests.get(f"{address}/healthz", timeout=5).ok
        except (requests.ConnectionError, requests.Timeout):
            return False

    until(alive, "the web server responds")
    return address


def test_a_hub_is_ready_while_its_loops_run_and_shows_them_in_its_metrics(processes: Processes):
    address = web(processes, WEBHOOKHUB_METRICS_TOKEN="a-token-of-some-length", WEBHOOKHUB_HEARTBEAT="0.05")
    response = requests.get(f"{address}/readyz", timeout=10)
    assert response.status_code == 503
    assert [missing.split(":")[0] for missing in response.json()["missing"]] == [f"no {kind}" for kind in KINDS]

    loops = processes.start_loops() | {"workflows": processes.start("run_workflows")}
    until(lambda: requests.get(f"{address}/readyz", timeout=10).ok, "the hub is ready")
    assert requests.head(f"{address}/readyz", timeout=10).ok
    assert requests.get(f"{address}/metrics", timeout=10).status_code == 403
    shown = requests.get(
        f"{address}/metrics", headers={"Authorization": "Bearer a-token-of-some-length"}, timeout=10
    ).text.splitlines()
    assert {f'webhookhub_processes{{kind="{kind}"}} 1.0' for kind in KINDS} <= set(shown)

    assert loops["worker"].stop() == 0
    response = requests.get(f"{address}/readyz", timeout=10)
    assert [missing.split(":")[0] for missing in response.json()["missing"]] == ["no worker"]


@pytest.mark.mysql_family
def test_probes_respond_in_bounded_time_without_the_database(processes: Processes):
    url = urlsplit(database_url())
    with Proxy(url.hostname or "", url.port or 3306) as proxy:
        proxied = url._replace(netloc=f"{url.username}:{url.password}@127.0.0.1:{proxy.port}").geturl()
        address = web(processes, DATABASE_URL=proxied, WEBHOOKHUB_METRICS_NETWORKS="127.0.0.0/8")
        assert requests.get(f"{address}/readyz", timeout=10).json()["status"] == "not ready"
        assert requests.get(f"{address}/metrics", timeout=10).ok

        proxy.freeze()
        for path, bound in (("/readyz", PROBE_SECONDS), ("/metrics", METRICS_SECONDS + 1), ("/healthz", PROBE_SECONDS)):
            assert quickest(f"{address}{path}", 200 if path == "/healthz" else 503) < bound
        assert requests.get(f"{address}/readyz", timeout=60).json()["missing"] == ["the database does not respond"]


def quickest(url: str, status: int) -> float:
    """The seconds of the quickest of three responses: what a busy machine adds to one of them is not the hub's time."""
    times = []
    for _ in range(3):
        started_at = time.monotonic()
        assert requests.get(url, timeout=60).status_code == status
        times.append(time.monotonic() - started_at)
    return min(times)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    url = urlsplit(database_url())
    with Proxy(url.hostname or "", url.port or 3306) as running:
        yield running


def through(proxy: Proxy) -> str:
    url = urlsplit(database_url())
    return url._replace(netloc=f"{url.username}:{url.password}@127.0.0.1:{proxy.port}").geturl()


@pytest.mark.mysql_family
def test_probes_at_their_own_address_respond_while_clients_fill_the_web_server(processes: Processes, proxy: Proxy):
    address, own = addresses()
    processes.start("run_web", address, "--probes", own, DATABASE_URL=through(proxy))
    until(lambda: _status(f"http://{own}/healthz") == 200, "the probes respond")
    until(lambda: _status(f"http://{address}/healthz") == 200, "the web server responds")
    proxy.freeze()
    with ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        host, port = address.split(":")
        # More than it has threads, each of which waits for the database.
        for _ in range(THREADS + 10):
            client = stack.enter_context(socket.create_connection((host, int(port))))
            client.sendall(b"GET /admin/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: sessionid=x\r\n\r\n")
        # More connections than it accepts.
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(socket.create_connection((host, int(port))))
        with pytest.raises(requests.RequestException):
            requests.get(f"http://{address}/healthz", timeout=PROBE_SECONDS)
        for _ in range(5):
            started_at = time.monotonic()
            statuses = pool.map(_status, [f"http://{own}/healthz", f"http://{own}/readyz", f"http://{own}/readyz"])
            assert list(statuses) == [200, 503, 503]
            assert time.monotonic() - started_at < PROBE_SECONDS


def test_only_probes_are_served_at_their_own_address(processes: Processes):
    address, own = addresses()
    hub = processes.start("run_hub", "--web", address, "--probes", own)
    until(lambda: _status(f"http://{own}/readyz") == 200, "the hub is ready")
    assert requests.get(f"http://{own}/readyz", timeout=10).json() == {"status": "ready", "missing": []}
    assert requests.head(f"http://{own}/healthz", timeout=10).text == ""
    for path in ("/", "/metrics", "/admin/", "/api/v1/events"):
        assert _status(f"http://{own}{path}") == 404
    refused = requests.post(f"http://{own}/healthz", timeout=10)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert hub.stop() == 0


def test_the_probes_address_can_be_a_setting(processes: Processes):
    address, own = addresses()
    server = processes.start("run_web", address, WEBHOOKHUB_PROBES=own)
    until(lambda: _status(f"http://{own}/healthz") == 200, "the probes respond")
    assert server.stop() == 0
    taken = processes.start("run_web", address, "--probes", address)
    assert taken.wait() == 2
    assert "--probes must be another address" in taken.errors


def _status(url: str) -> int:
    try:
        return requests.get(url, timeout=30).status_code
    except requests.ConnectionError:
        return 0
