"""A server that refuses writes because it has become a replica, or refuses its users: every loop logs the error, waits
and continues."""

from __future__ import annotations

import re
from functools import partial

import pytest
import requests

from tests.processes.outages import check_reconnected, migrate, seed, statuses
from tests.processes.support import Processes, Running, until
from tests.processes.test_probes import web
from tools.demo.endpoint import HttpsEndpoint
from tools.support.database_server import NoServer, PrivateServer

EVENTS = 5


@pytest.mark.mysql_family
@pytest.mark.parametrize(
    ("variable", "code", "cause"), [("read_only", 1290, "read_only"), ("offline_mode", 3032, "offline")]
)
def test_loops_wait_for_a_server_that_refuses_its_users(
    processes: Processes, endpoint: HttpsEndpoint, variable: str, code: int, cause: str
):
    try:
        private = PrivateServer()
    except NoServer as reason:
        pytest.skip(str(reason))
    if variable == "offline_mode" and "MariaDB" in private.version:
        pytest.skip("MariaDB has no offline mode")
    with private as server:
        migrate(processes, server.url())
        seed(processes, server.url(), endpoint, EVENTS)
        # As in production, a user without the privilege to write to a replica.
        server.execute("CREATE USER plain@'%' IDENTIFIED BY 'plain'; GRANT ALL ON webhookhub.* TO plain@'%'")
        processes.environment["DATABASE_URL"] = server.url().replace("hub:hub@", "plain:plain@")
        server.execute(f"SET GLOBAL {variable} = 1")

        loops = processes.start_loops()
        for running in loops.values():
            until(partial(logs_error, running, code, cause), "each loop logs the error")
        server.execute(f"SET GLOBAL {variable} = 0")

        check_reconnected(loops, 1)
        until(lambda: statuses(server) == {("Completed", 1): EVENTS}, "everything is delivered")


@pytest.mark.mysql_family
def test_the_web_server_reports_a_replica_and_follows_it_back_at_once(processes: Processes):
    try:
        private = PrivateServer()
    except NoServer as reason:
        pytest.skip(str(reason))
    with private as server:
        migrate(processes, server.url())
        server.execute("CREATE USER plain@'%' IDENTIFIED BY 'plain'; GRANT ALL ON webhookhub.* TO plain@'%'")
        processes.environment["DATABASE_URL"] = server.url().replace("hub:hub@", "plain:plain@")
        created = processes.start("api_key", "create", "shop", "--scope", "events:write")
        assert created.wait() == 0
        [key] = re.findall(r"whk_\S+", created.output)
        headers = {"Authorization": f"Bearer {key}"}
        url = web(processes)

        def post() -> requests.Response:
            event = {"event_type": "order.created", "payload": {}}
            return requests.post(f"{url}/api/v1/events", json=event, headers=headers, timeout=30)

        def missing() -> list[str]:
            return list(requests.get(f"{url}/readyz", timeout=10).json()["missing"])

        assert post().status_code == 201
        assert "the database is read-only" not in missing()
        server.execute("SET GLOBAL read_only = 1")
        refused = post()
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert "the database is read-only" in missing()

        server.execute("SET GLOBAL read_only = 0")
        assert post().status_code == 201
        assert "the database is read-only" not in missing()


def logs_error(running: Running, code: int, cause: str) -> bool:
    assert running.is_alive, running.errors
    return any(f"({code}, " in fact["error"] and fact["cause"] == cause for fact in running.facts("database_lost"))
