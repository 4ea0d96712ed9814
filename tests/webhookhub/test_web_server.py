"""Slow clients keep no connection of the web server."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from waitress.channel import HTTPChannel

from tools.support.ports import free_port
from webhookhub import web_server
from webhookhub.web_server import WebServer

LIMIT_SECONDS = 2.0
# Enough for a busy machine.
TIMEOUT = 30.0
LARGE = b"x" * 8_000_000


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = LARGE if environ["PATH_INFO"] == "/large" else environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture
def address() -> tuple[str, int]:
    return "127.0.0.1", free_port()


@pytest.fixture(autouse=True)
def serving(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setattr(web_server, "TRANSFER_SECONDS", LIMIT_SECONDS)
    monkeypatch.setattr(web_server, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(WebServer, "handle_signals", lambda self: None)  # for the main thread only
    server = WebServer(application, f"{address[0]}:{address[1]}")
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server
    server._stop()
    thread.join(TIMEOUT)


def channels(server: WebServer) -> list[HTTPChannel]:
    return [each for each in server._dispatchers.values() if isinstance(each, HTTPChannel)]


def seconds_until_closed(client: socket.socket, piece: bytes) -> float:
    """Sends a piece every tenth of a second."""
    client.settimeout(0.1)
    started_at = time.monotonic()
    while time.monotonic() < started_at + TIMEOUT:
        try:
            client.sendall(piece)
            if client.recv(1000) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - started_at


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nX-Header: ", b"x"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", b"x"),
        (b"", b"\r\n"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["header", "body", "blank lines", "chunks"],
)
def test_a_request_that_trickles_is_ended(address: tuple[str, int], first: bytes, piece: bytes):
    with socket.create_connection(address) as client:
        client.sendall(first)
        seconds = seconds_until_closed(client, piece)

    assert LIMIT_SECONDS - 0.5 < seconds < TIMEOUT / 2


def test_a_response_that_is_read_slowly_is_ended(serving: WebServer, address: tuple[str, int]):
    with socket.create_connection(address) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        started_at = time.monotonic()
        while channels(serving) or time.monotonic() < started_at + LIMIT_SECONDS / 2:
            assert client.recv(1)
            assert time.monotonic() < started_at + TIMEOUT
            time.sleep(0.05)


def test_a_connection_that_is_used_stays_open(address: tuple[str, int]):
    connection = http.client.HTTPConnection(*address, timeout=TIMEOUT)
    connection.connect()
    first = connection.sock.getsockname()
    until = time.monotonic() + 2 * LIMIT_SECONDS
    while time.monotonic() < until:
        connection.request("POST", "/", b"body")
        assert connection.getresponse().read() == b"body"
        time.sleep(0.2)

    assert connection.sock.getsockname() == first
    connection.close()
