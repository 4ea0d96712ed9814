"""The API through a real web server of several processes: bodies of all lengths, and many clients at once."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from api import keys
from api.scopes import SCOPES
from events.models import Event, RoutingInbox
from events.payloads import MAX_BYTES
from tests.support.web import WebServer

pytestmark = pytest.mark.usefixtures("committed")

EVENT = {"event_type": "order.created", "payload": {"n": 1}}
TOO_LONG = MAX_BYTES + 40 * 1024 + 1


@pytest.fixture
def authorization(committed: None) -> dict[str, str]:
    return {"Authorization": f"Bearer {keys.create('sender', SCOPES, by='tests', events_per_second=100_000)[1]}"}


def test_two_hundred_posts_of_one_event_from_twenty_connections_store_it_once(
    web: WebServer, authorization: dict[str, str]
):
    def send(connection: int) -> list[tuple[int, str, float]]:
        responses = []
        with requests.Session() as session:
            for _ in range(10):
                started = time.monotonic()
                response = session.post(
                    f"{web.url}/api/v1/events", json=EVENT | {"external_id": "one"}, headers=authorization, timeout=30
                )
                responses.append((response.status_code, response.json()["uid"], time.monotonic() - started))
        return responses

    with ThreadPoolExecutor(20) as connections:
        responses = [response for responses in connections.map(send, range(20)) for response in responses]

    assert Counter(status for status, *_ in responses) == {201: 1, 200: 199}
    assert len({uid for _, uid, _ in responses}) == 1
    assert Event.objects.count() == RoutingInbox.objects.count() == 1
    assert max(duration for *_, duration in responses) < 10.0, "no request waited for a lock until its timeout"


def test_batches_with_the_same_events_in_opposite_order_store_each_once(web: WebServer, authorization: dict[str, str]):
    events = [EVENT | {"external_id": str(number)} for number in range(300)]

    def send(turn: int) -> list[int]:
        ordered = events[:: 1 if turn % 2 else -1]
        response = requests.post(
            f"{web.url}/api/v1/events/batch", json={"events": ordered}, headers=authorization, timeout=60
        )
        assert response.status_code == 200, response.text
        return [result["status"] for result in response.json()["results"]]

    with ThreadPoolExecutor(8) as connections:
        statuses = Counter(status for response in connections.map(send, range(8)) for status in response)

    assert statuses == {201: 300, 200: 7 * 300}
    assert Event.objects.count() == 300


def exchange(web: WebServer, head: str, *pieces: bytes) -> tuple[int, str]:
    """Sends exactly these bytes; returns the status and the response, which may arrive before all is sent."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=30) as connection:
        try:
            connection.sendall(head.replace("\n", "\r\n").encode())
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has refused the rest
        response = b""
        while b"\r\n\r\n" not in response or b"}" not in response:
            received = connection.recv(65536)
            if not received:
                break
            response += received
    text = response.decode()
    return int(text.split()[1]), text


def head(authorization: dict[str, str], *more: str) -> str:
    lines = ["POST /api/v1/events HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    return "\n".join([*lines, f"Authorization: {authorization['Authorization']}", "", ""])


def chunks(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def test_a_chunked_body_is_read(web: WebServer, authorization: dict[str, str]):
    body = json.dumps(EVENT).encode()

    status, _ = exchange(web, head(authorization, "Transfer-Encoding: chunked"), *chunks(body, 7))

    assert status == 201
    assert Event.objects.count() == 1


@pytest.mark.parametrize(
    "more",
    [
        ["Content-Encoding: gzip", "Transfer-Encoding: chunked"],
        ["Content-Encoding: identity", "Content-Encoding: gzip", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
    ],
)
def test_an_encoded_body_is_refused_without_reading_it(more: list[str], web: WebServer, authorization: dict[str, str]):
    body = gzip.compress(json.dumps(EVENT).encode())

    status, text = exchange(web, head(authorization, *more), *chunks(body, 7))

    assert status == 415
    assert "send the body unencoded" in text
    assert not Event.objects.exists()


def test_a_too_large_content_length_is_refused_before_the_body_is_sent(web: WebServer, authorization: dict[str, str]):
    status, text = exchange(web, head(authorization, f"Content-Length: {10**12}"))

    assert status == 413
    assert "application/problem+json" in text


def test_an_endless_chunked_body_is_refused_at_the_limit(web: WebServer, authorization: dict[str, str]):
    endless = (piece for piece in chunks(b" " * (8 * TOO_LONG), 64 * 1024))

    status, text = exchange(web, head(authorization, "Transfer-Encoding: chunked"), *endless)

    assert status == 413
    assert "application/problem+json" in text
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "broken",
    [
        b"ZZ\r\n{}\r\n0\r\n\r\n",
        b"2\r\n{}XX0\r\n\r\n",
        b"2\r\n{}\r\n0\r\nno trailer\r\n\r\n",
    ],
)
def test_malformed_chunks_are_a_bad_request(broken: bytes, web: WebServer, authorization: dict[str, str]):
    status, text = exchange(web, head(authorization, "Transfer-Encoding: chunked"), broken)

    assert status == 400
    assert "body is incomplete" in text
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (["Transfer-Encoding: chunked", "Content-Length: 2"], 400),
        (["Content-Length: 2", "Content-Length: 3"], 400),
        (["Expect: nothing", "Content-Length: 2"], 417),
        (["Transfer-Encoding: nonsense"], 501),
    ],
    ids=str,
)
def test_requests_that_the_web_server_refuses_get_its_html_page(
    more: list[str], status: int, web: WebServer, authorization: dict[str, str]
):
    received, text = exchange(web, head(authorization, *more), b"{}")

    assert (received, "text/html" in text) == (status, True)
    assert not Event.objects.exists()


def test_a_truncated_body_stores_nothing(web: WebServer, authorization: dict[str, str]):
    body = json.dumps(EVENT).encode()
    with socket.create_connection(("127.0.0.1", web.port), timeout=30) as connection:
        connection.sendall(head(authorization, "Content-Length: 10000").replace("\n", "\r\n").encode() + body)
        connection.shutdown(socket.SHUT_WR)
        response = connection.recv(65536)

    assert response.split()[1] == b"400"
    assert not Event.objects.exists()


def test_an_unknown_host_is_a_problem(web: WebServer, authorization: dict[str, str]):
    response: Any = requests.get(
        f"{web.url}/api/v1/deliveries", headers={**authorization, "Host": "elsewhere.example"}, timeout=30
    )

    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset*=bogus'x'%41",
        "application/json; charset*=idna''%ff%ff",
        "application/json; a*" + "9" * 5000 + "=x",
        "text/plain; charset=hex",
        "text/plain; charset=idna",
        "text/plain; charset=undefined",
        "application/json; charset*=utf-8''%00",
        "application/json; charset*=unicode_escape''%5Cud800",
    ],
)
def test_a_malformed_content_type_is_refused(content_type: str, web: WebServer):
    before = len(web.log)
    sent = {"Content-Type": content_type}

    problem: Any = requests.post(f"{web.url}/api/v1/events", data=b"{}", headers=sent, timeout=30)
    plain = [
        requests.request(method, web.url + path, headers=sent, timeout=30)
        for method, path in (("GET", "/healthz?token=%ff"), ("POST", "/admin/"), ("HEAD", "/"))
    ]

    assert (problem.status_code, problem.headers["Content-Type"]) == (400, "application/problem+json")
    assert problem.json()["status"] == 400
    assert "Content-Type" in problem.json()["detail"]
    assert {response.status_code for response in plain} == {400}
    assert {response.headers["Content-Type"] for response in plain} == {"text/plain; charset=utf-8"}
    assert {response.text for response in plain} == {"", f"{problem.json()['detail']}\n"}
    assert web.log[before:] == ""
    assert requests.get(f"{web.url}/healthz", timeout=30).status_code == 200
