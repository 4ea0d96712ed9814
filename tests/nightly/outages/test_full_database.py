"""A server whose disk is full: the API refuses events with a time to retry, and loops wait."""

from __future__ import annotations

import re

import pytest
import requests

from tests.processes.outages import migrate
from tests.processes.support import Processes, until
from tests.processes.test_probes import web
from tools.support.database_server import QUICK_OPTIONS, NoServer, PrivateServer

# All tables share one file of a fixed size, like a disk.
SMALL = ("--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M:autoextend:max:40M")
PAYLOAD = {"text": "a" * 200_000}
MORE_THAN_FIT = 400


@pytest.mark.mysql_family
def test_a_full_database_is_a_503_and_reported(processes: Processes):
    try:
        private = PrivateServer((*QUICK_OPTIONS, *SMALL))
    except NoServer as reason:
        pytest.skip(str(reason))
    with private as server:
        processes.environment["DATABASE_URL"] = server.url()
        migrate(processes, server.url())
        created = processes.start("api_key", "create", "shop", "--scope", "events:write")
        assert created.wait() == 0
        [key] = re.findall(r"whk_\S+", created.output)
        router = processes.start("run_router")
        router.wait_for("process_started")
        url = web(processes)

        def post() -> requests.Response:
            event = {"event_type": "order.created", "payload": PAYLOAD}
            headers = {"Authorization": f"Bearer {key}"}
            return requests.post(f"{url}/api/v1/events", json=event, headers=headers, timeout=60)

        responses = (post() for _ in range(MORE_THAN_FIT))
        refused = next(response for response in responses if response.status_code != 201)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        until(
            lambda: "the database is full" in requests.get(f"{url}/readyz", timeout=10).json()["missing"],
            "the full database is reported",
        )
        assert router.is_alive
        assert router.stop() == 0
        assert "Traceback" not in router.errors
