"""/healthz, /readyz and /metrics of a real web server, with real loops and a database that stops responding."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import pytest
import requests

from tools.support.ports import free_port
from tools.support.proxy import Proxy
from webhookhub.conf import KINDS

from .support import Processes, database_url, until


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
        for path, bound in (("/readyz", 3), ("/metrics", 30), ("/healthz", 3)):
            started = time.monotonic()
            response = requests.get(f"{address}{path}", timeout=60)
            assert time.monotonic() - started < bound
            assert response.status_code == (200 if path == "/healthz" else 503)
        assert requests.get(f"{address}/readyz", timeout=60).json()["missing"] == ["the database does not respond"]
