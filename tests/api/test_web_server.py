"""The web server of run_web: slow and hostile clients, and its end."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from django.db import connection

from api import keys
from api.scopes import SCOPES
from events.models import Event
from tests.processes.support import until
from tests.support.web import RunWeb

pytestmark = pytest.mark.usefixtures("committed")

EVENT = {"event_type": "order.created", "payload": {"n": 1}}
BODY = json.dumps(EVENT).encode()
TIMEOUT = 30.0


@pytest.fixture(scope="module")
def _serving(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunWeb]:
    with RunWeb(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def server(_serving: RunWeb) -> Iterator[RunWeb]:
    before = len(_serving.log)
    yield _serving
    assert "api_failed" not in _serving.log[before:]
    assert "Traceback" not in _serving.log[before:]


@pytest.fixture
def key(committed: None) -> str:
    return keys.create("sender", SCOPES, by="tests", events_per_second=100_000)[1]


def head(key: str, *more: str, path: str = "/api/v1/events") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    return "\r\n".join([*lines, f"Authorization: Bearer {key}", "", ""]).encode()


def connect(server: RunWeb) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT)


def received(client: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    response = b""
    while piece := client.recv(65536):
        response += piece
    return response


def exchange(server: RunWeb, *pieces: bytes) -> bytes:
    """Sends these bytes and ends; returns all that the server sent."""
    with connect(server) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            return received(client)
        except TimeoutError:
            raise
        except OSError:
            return b""  # the server has closed the connection


def statuses(response: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3})", response)]


def send(server: RunWeb, key: str) -> int:
    return requests.post(
        f"{server.url}/api/v1/events", data=BODY, timeout=TIMEOUT, headers={"Authorization": f"Bearer {key}"} | JSON
    ).status_code


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "begun", [b"", b"POST /api/v1/events HTTP/1.1\r\nHost: loc", None], ids=["connected", "headers", "body"]
)
def test_five_hundred_clients_that_send_slowly_do_not_stop_the_api(begun: bytes | None, server: RunWeb, key: str):
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in range(500)]
        for client in clients:
            client.sendall(head(key, "Content-Length: 1000") + b"{" if begun is None else begun)
        for byte in (b" ", b" ", b" "):
            for client in clients:
                client.sendall(byte)
            assert send(server, key) == 201

    assert Event.objects.count() == 3


def test_a_chunked_body_is_stored(server: RunWeb, key: str):
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (BODY[:7], BODY[7:])]

    response = exchange(server, head(key, "Transfer-Encoding: chunked", "Connection: close"), *chunks, b"0\r\n\r\n")

    assert statuses(response) == [201]
    assert Event.objects.count() == 1


def test_several_requests_on_a_connection_without_waiting_are_answered_in_order(server: RunWeb, key: str):
    one = head(key, f"Content-Length: {len(BODY)}") + BODY
    wrong = head(key, "Content-Length: 2") + b"[]"
    last = head(key, f"Content-Length: {len(BODY)}", "Connection: close") + BODY

    assert statuses(exchange(server, one + wrong + one + last)) == [201, 422, 201, 201]
    assert Event.objects.count() == 3


@pytest.mark.parametrize(
    "more",
    [
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: nonsense"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: -1"],
        ["Content-Length: 0x10"],
        [f"Content-Length: {10**12}"],
        ["X-Large: " + "x" * 300_000],
        ["Content-Length : 5"],
        ["\0: x"],
    ],
    ids=lambda more: more[0][:40],
)
def test_a_malformed_request_is_refused_and_ends_its_connection(more: list[str], server: RunWeb, key: str):
    # A second request that a wrong length of the first would hide or reveal.
    hidden = head(key, f"Content-Length: {len(BODY)}") + BODY

    response = exchange(server, head(key, *more), hidden)

    assert [status for status in statuses(response) if status < 400] == []
    assert len(statuses(response)) <= 1
    assert not Event.objects.exists()


def test_a_chunked_request_with_a_length_is_read_once(server: RunWeb, key: str):
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    first = head(key, "Content-Length: 5", "Transfer-Encoding: chunked") + chunked

    response = exchange(server, first, head(key, "Content-Length: 2", "Connection: close") + b"[]")

    # RFC 9112: the chunks count. What follows them is never part of the first request.
    assert statuses(response) in ([201, 422], [201], [400])
    assert Event.objects.count() == (201 in statuses(response))


def test_a_cut_body_stores_nothing(server: RunWeb, key: str):
    exchange(server, head(key, "Content-Length: 10000"), BODY)

    assert send(server, key) == 201
    assert Event.objects.count() == 1


def test_a_batch_of_the_maximum_size_is_stored_and_a_larger_one_refused(server: RunWeb, key: str):
    item = json.dumps(EVENT | {"payload": "x" * 8_000}).encode()
    batch = b'{"events":[' + b",".join([item] * 1000) + b"]}"
    limit = 8 * 1024 * 1024
    assert len(batch) < limit
    headers = {"Authorization": f"Bearer {key}"} | JSON

    def sent(size: int) -> Any:
        return requests.post(
            f"{server.url}/api/v1/events/batch", data=batch.ljust(size), headers=headers, timeout=2 * TIMEOUT
        )

    stored = sent(limit)
    assert {result["status"] for result in stored.json()["results"]} == {201}
    assert Event.objects.count() == 1000
    larger = sent(limit + 1)
    assert (larger.status_code, larger.json()["errors"][0]["field"]) == (413, "body")
    assert Event.objects.count() == 1000


def test_clients_that_leave_before_the_response_do_not_affect_others(server: RunWeb, key: str):
    def leave(number: int) -> None:
        with connect(server) as client:
            client.sendall(head(key, f"Content-Length: {len(BODY)}") + BODY)

    with ThreadPoolExecutor(16) as pool:
        left = [pool.submit(leave, number) for number in range(100)]
        answered = list(pool.map(lambda number: send(server, key), range(100)))

    assert [future.result() for future in left] == [None] * 100
    assert answered == [201] * 100
    assert 100 <= Event.objects.count() <= 200


@pytest.mark.sqlite_only
def test_a_stopped_server_finishes_the_requests_that_it_has_received(key: str, tmp_path: Any):
    with RunWeb(tmp_path) as stopped, ThreadPoolExecutor(5) as pool:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")  # requests wait for this transaction
            sent = [pool.submit(send, stopped, key) for _ in range(5)]
            until(lambda: _connections(stopped.port) >= 5, "the requests arrive")
            stopped.stop()
            until(lambda: socket.socket().connect_ex(("127.0.0.1", stopped.port)) != 0, "no new connections")
            cursor.execute("COMMIT")

        assert [future.result() for future in sent] == [201] * 5
        assert stopped.exit_code() == 0
    assert Event.objects.count() == 5


def _connections(port: int) -> int:
    """Established connections to the port whose data the server has read."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    to_port = [line for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "01"]
    return sum(line[4].endswith(":00000000") for line in to_port)


def test_an_address_in_use_ends_the_command(tmp_path: Any):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = RunWeb(tmp_path)
        server._command[-1] = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RuntimeError, match="The web server cannot use the address"):
            server.__enter__()
