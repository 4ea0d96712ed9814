"""Endpoints that do everything but answer, and what each must cost: one failed attempt with this code."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tools.support.raw_endpoint import read_request

DRIP_SECONDS = 5.0
PIECE = b"x" * 16_384
OK = b"HTTP/1.1 200 OK\r\n"
ENDLESS_CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Misbehaviour:
    """What an endpoint does once it has read a request, until `closing` is set or the client is gone."""

    def __init__(self, act: Callable[[Misbehaviour, ssl.SSLSocket], None]) -> None:
        self._act = act
        self.closing = threading.Event()
        self.requests: list[bytes] = []
        self.sent = 0
        self._lock = threading.Lock()

    def __call__(self, connection: ssl.SSLSocket) -> None:
        request = read_request(connection)
        if request:
            self.requests.append(request)
            self._act(self, connection)

    def send(self, connection: ssl.SSLSocket, data: bytes) -> None:
        connection.sendall(data)
        with self._lock:
            self.sent += len(data)

    def pour(self, connection: ssl.SSLSocket, head: bytes, piece: bytes, count: int = 10**9) -> None:
        """As fast as it is read."""
        self.send(connection, head)
        for _ in range(count):
            if self.closing.is_set():
                return
            self.send(connection, piece)

    def drip(self, connection: ssl.SSLSocket, head: bytes, data: bytes) -> None:
        """One byte now and one every five seconds."""
        self.send(connection, head)
        for position in range(len(data)):
            self.send(connection, data[position : position + 1])
            if self.closing.wait(DRIP_SECONDS):
                return
        self.closing.wait(60)

    def wait(self, connection: ssl.SSLSocket) -> None:
        self.closing.wait(60)

    def say(self, connection: ssl.SSLSocket, data: bytes) -> None:
        """All of it, and an orderly end."""
        self.send(connection, data)
        with contextlib.suppress(OSError):
            connection.settimeout(0)  # without waiting for the client's side of the shutdown
            connection.unwrap()


def reset(behaviour: Misbehaviour, connection: ssl.SSLSocket, data: bytes) -> None:
    behaviour.send(connection, data)
    # A linger of nothing: closing sends a reset in place of an end.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def bomb() -> bytes:
    """Fifty megabytes of zeros in fewer than sixty kilobytes."""
    return gzip.compress(b"\0" * 2**20) * 50


@dataclass(frozen=True)
class Case:
    name: str
    code: str | None
    act: Callable[[Misbehaviour, ssl.SSLSocket], None]


def said(name: str, code: str | None, data: bytes) -> Case:
    return Case(name, code, lambda behaviour, connection: behaviour.say(connection, data))


def poured(name: str, code: str, head: bytes, piece: bytes, count: int = 10**9) -> Case:
    return Case(name, code, lambda behaviour, connection: behaviour.pour(connection, head, piece, count))


def dripped(name: str, head: bytes, data: bytes = b"x" * 1000) -> Case:
    return Case(name, "timeout", lambda behaviour, connection: behaviour.drip(connection, head, data))


TEN_GIGABYTES = OK + b"Content-Length: 10737418240\r\n\r\n"
HUNDRED_MEGABYTES = 100 * 2**20

CASES = [
    # too much
    poured("10 GB announced", "response_too_large", TEN_GIGABYTES, PIECE, 10 * 2**30 // len(PIECE)),
    poured("10 GB in chunks", "response_too_large", ENDLESS_CHUNKS, b"4000\r\n" + PIECE + b"\r\n"),
    poured("a body without length or end", "response_too_large", OK + b"\r\n", PIECE),
    poured("an error page without end", "http_500", b"HTTP/1.1 500 No\r\n\r\n", PIECE),
    poured("chunks of one byte without end", "response_too_large", ENDLESS_CHUNKS, b"1\r\nx\r\n" * 1000),
    poured("a chunk extension without end", "timeout", ENDLESS_CHUNKS + b"1;x=", PIECE),
    poured("trailers without end", "response_too_large", ENDLESS_CHUNKS + b"1\r\nx\r\n0\r\n", b"X-T: x\r\n" * 1000),
    poured("100 MB in one header", "response_too_large", OK + b"X-Big: ", PIECE, HUNDRED_MEGABYTES // len(PIECE)),
    poured("100 MB of headers", "response_too_large", OK, (b"X-Many: " + b"x" * 1000 + b"\r\n") * 10, 10_000),
    poured(
        "a folded header without end", "response_too_large", OK + b"X-Fold: x\r\n", (b" " + b"x" * 100 + b"\r\n") * 100
    ),
    poured("a status line without end", "protocol_error|response_too_large", b"HTTP/1.1 200 ", PIECE),
    poured("not HTTP and without end", "protocol_error", b"", PIECE),
    poured("1xx without end", "response_too_large", b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    poured("early hints without end", "response_too_large", b"", b"HTTP/1.1 103 Hints\r\nLink: <x>\r\n\r\n" * 100),
    # too slow
    dripped("a body of a byte every 5 s", OK + b"Content-Length: 1000\r\n\r\n"),
    dripped("chunks of a byte every 5 s", ENDLESS_CHUNKS, b"1\r\nx\r\n" * 100),
    dripped("headers of a byte every 5 s", OK, b"X-Slow: yes\r\n" * 100),
    dripped("a status line of a byte every 5 s", b"", OK),
    dripped("a body that stops", OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 500, b"x"),
    Case("no headers ever", "timeout", Misbehaviour.wait),
    # broken
    Case("a reset in the body", "connection_lost", lambda b, c: reset(b, c, OK + b"Content-Length: 1000\r\n\r\nabc")),
    Case("a reset in the headers", "connection_lost", lambda b, c: reset(b, c, OK + b"X-A: ")),
    Case("a reset in a chunk", "connection_lost", lambda b, c: reset(b, c, ENDLESS_CHUNKS + b"ff\r\nabc")),
    said("an end behind the status line", "connection_lost", OK),
    said("an end in the headers", "connection_lost", OK + b"X-A: 1\r\n"),
    said("an end in a chunk", "connection_lost", ENDLESS_CHUNKS + b"ff\r\nabc"),
    said("a chunk of no size", "connection_lost", ENDLESS_CHUNKS + b"zz\r\nabc\r\n"),
    said("a chunk larger than numbers are", "connection_lost", ENDLESS_CHUNKS + b"f" * 40 + b"\r\nabc"),
    said("a garbage status line", "protocol_error", b"\x16\x03\x01 garbage \xff\r\n\r\n"),
    said("an empty status", "protocol_error", b"HTTP/1.1 \r\n\r\n"),
    said("a status of letters", "protocol_error", b"HTTP/1.1 abc OK\r\n\r\n"),
    said("a status of nothing", "protocol_error", b"HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n"),
    said("HTTP/0.9", "protocol_error", b"<html>hello</html>"),
    said("another protocol", "protocol_error", b"220 mail.example.com ESMTP\r\n"),
    said("a length that is no number", "protocol_error", OK + b"Content-Length: many\r\n\r\nabc"),
    said("a negative length", "protocol_error", OK + b"Content-Length: -1\r\n\r\nabc"),
    said("two lengths", "protocol_error", OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nabc"),
    said("a NUL in a header", "protocol_error", OK + b"X-Nul: a\0b\r\nContent-Length: 0\r\n\r\n"),
    said("a transfer coding of its own", "protocol_error", OK + b"Transfer-Encoding: rot13\r\n\r\nabc"),
    said(
        "another protocol by upgrade",
        "connection_lost",
        b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ),
    # somewhere else
    said(
        "a redirect to a metadata service",
        "redirect",
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
    ),
    said(
        "a redirect to a file",
        "redirect",
        b"HTTP/1.1 307 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    ),
    said(
        "a demand for a password",
        "http_401",
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: Negotiate\r\nContent-Length: 0\r\n\r\n",
    ),
    said(
        "a demand for a proxy password",
        "http_407",
        b"HTTP/1.1 407 No\r\nProxy-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n",
    ),
    said("an expectation that failed", "http_417", b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n"),
    # strange, but a success
    said("a gzip bomb", None, OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(bomb()), bomb())),
    said("a body after 204", None, b"HTTP/1.1 204 None\r\nContent-Length: 100000000\r\n\r\n" + PIECE * 8),
    said("another answer behind the answer", None, OK + b"Content-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\n\r\n"),
]
