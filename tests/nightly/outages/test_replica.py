"""A server that refuses writes because it has become a replica, or refuses its users: every loop logs the error, waits
and continues."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import pytest
import requests

from tests.processes.outages import check_reconnected, migrate, seed, statuses
from tests.processes.support import Processes, Running, until
from tests.processes.test_probes import web
from tools.demo.endpoint import HttpsEndpoint
from tools.support.database_server import NoServer, PrivateServer
from tools.support.genuine_mysql import GenuineServer

EVENTS = 5


@dataclass(frozen=True)
class Refusal:
    """Of a server whose variable is set. MariaDB has no offline mode."""

    variable: str
    kind_of_server: type[PrivateServer]
    codes: set[int]
    cause: str
    problem: str


REFUSALS = [
    Refusal("read_only", PrivateServer, {1290}, "read_only", "the database is read-only"),
    Refusal("offline_mode", GenuineServer, {3032, 6400, 6401}, "offline", "the database is offline"),
]


@pytest.fixture(params=REFUSALS, ids=lambda refusal: refusal.variable)
def refusal(request: pytest.FixtureRequest) -> Refusal:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def private(refusal: Refusal) -> PrivateServer:
    try:
        return refusal.kind_of_server()
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.mark.mysql_family
def test_loops_wait_for_a_server_that_refuses_its_users(
    processes: Processes, endpoint: HttpsEndpoint, private: PrivateServer, refusal: Refusal
):
    with private as server:
        migrate(processes, server.url())
        seed(processes, server.url(), endpoint, EVENTS)
        # As in production, a user without the privilege to write to a replica.
        server.execute("CREATE USER plain@'%' IDENTIFIED BY 'plain'; GRANT ALL ON webhookhub.* TO plain@'%'")
        processes.environment["DATABASE_URL"] = server.url().replace("hub:hub@", "plain:plain@")
        server.execute(f"SET GLOBAL {refusal.variable} = 1")

        loops = processes.start_loops()
        for running in loops.values():
            until(partial(logs_error, running, refusal.codes, refusal.cause), "each loop logs the error")
        server.execute(f"SET GLOBAL {refusal.variable} = 0")

        check_reconnected(loops, 1)
        until(lambda: statuses(server) == {("Completed", 1): EVENTS}, "everything is delivered")


@pytest.mark.mysql_family
def test_the_web_server_reports_a_refusal_and_follows_the_server_back_at_once(
    processes: Processes, private: PrivateServer, refusal: Refusal
):
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
        assert refusal.problem not in missing()
        server.execute(f"SET GLOBAL {refusal.variable} = 1")
        refused = post()
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert refusal.problem in missing()

        server.execute(f"SET GLOBAL {refusal.variable} = 0")
        assert post().status_code == 201
        assert refusal.problem not in missing()


def logs_error(running: Running, codes: set[int], cause: str) -> bool:
    assert running.is_alive, running.errors
    return any(
        fact["cause"] == cause and any(f"({code}, " in fact["error"] for code in codes)
        for fact in running.facts("database_lost")
    )
