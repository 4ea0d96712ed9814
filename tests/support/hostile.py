"""Endpoints that misbehave, and the error code of each; None if it counts as a success."""

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
    """A script for RawEndpoint: reads a request and misbehaves until `closing` is set or the client disconnects."""

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
        """Sends as fast as the client reads."""
        self.send(connection, head)
        for _ in range(count):
            if self.closing.is_set():
                return
            self.send(connection, piece)

    def drip(self, connection: ssl.SSLSocket, head: bytes, data: bytes) -> None:
        """Sends one byte every five seconds."""
        self.send(connection, head)
        for position in range(len(data)):
            self.send(connection, data[position : position + 1])
            if self.closing.wait(DRIP_SECONDS):
                return
        self.closing.wait(60)

    def wait(self, connection: ssl.SSLSocket) -> None:
        self.closing.wait(60)

    def respond(self, connection: ssl.SSLSocket, data: bytes) -> None:
        """Sends everything and closes in order."""
        self.send(connection, data)
        with contextlib.suppress(OSError):
            connection.settimeout(0)  # without waiting for the client's side of the shutdown
            connection.unwrap()


def reset(behaviour: Misbehaviour, connection: ssl.SSLSocket, data: bytes) -> None:
    behaviour.send(connection, data)
    # With SO_LINGER 0, close() sends a reset.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def bomb() -> bytes:
    """Fifty megabytes of zeros, compressed to less than sixty kilobytes."""
    return gzip.compress(b"\0" * 2**20) * 50


@dataclass(frozen=True)
class Case:
    name: str
    code: str | None
    act: Callable[[Misbehaviour, ssl.SSLSocket], None]


def responds(name: str, code: str | None, data: bytes) -> Case:
    return Case(name, code, lambda behaviour, connection: behaviour.respond(connection, data))


def pours(name: str, code: str, head: bytes, piece: bytes, count: int = 10**9) -> Case:
    return Case(name, code, lambda behaviour, connection: behaviour.pour(connection, head, piece, count))


def drips(name: str, head: bytes, data: bytes = b"x" * 1000) -> Case:
    return Case(name, "timeout", lambda behaviour, connection: behaviour.drip(connection, head, data))


TEN_GIGABYTES = OK + b"Content-Length: 10737418240\r\n\r\n"
HUNDRED_MEGABYTES = 100 * 2**20

CASES = [
    # too large
    pours("10 GB announced", "response_too_large", TEN_GIGABYTES, PIECE, 10 * 2**30 // len(PIECE)),
    pours("10 GB in chunks", "response_too_large", ENDLESS_CHUNKS, b"4000\r\n" + PIECE + b"\r\n"),
    pours("a body without length or end", "response_too_large", OK + b"\r\n", PIECE),
    pours("an error page without end", "http_500", b"HTTP/1.1 500 No\r\n\r\n", PIECE),
    pours("chunks of one byte without end", "response_too_large", ENDLESS_CHUNKS, b"1\r\nx\r\n" * 1000),
    pours("a chunk extension without end", "timeout", ENDLESS_CHUNKS + b"1;x=", PIECE),
    pours("trailers without end", "response_too_large", ENDLESS_CHUNKS + b"1\r\nx\r\n0\r\n", b"X-T: x\r\n" * 1000),
    pours("100 MB in one header", "response_too_large", OK + b"X-Big: ", PIECE, HUNDRED_MEGABYTES // len(PIECE)),
    pours("100 MB of headers", "response_too_large", OK, (b"X-Many: " + b"x" * 1000 + b"\r\n") * 10, 10_000),
    pours(
        "a folded header without end", "response_too_large", OK + b"X-Fold: x\r\n", (b" " + b"x" * 100 + b"\r\n") * 100
    ),
    pours("a status line without end", "protocol_error|response_too_large", b"HTTP/1.1 200 ", PIECE),
    pours("not HTTP and without end", "protocol_error", b"", PIECE),
    pours("1xx without end", "response_too_large", b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    pours("early hints without end", "response_too_large", b"", b"HTTP/1.1 103 Hints\r\nLink: <x>\r\n\r\n" * 100),
    # too slow
    drips("a body of a byte every 5 s", OK + b"Content-Length: 1000\r\n\r\n"),
    drips("chunks of a byte every 5 s", ENDLESS_CHUNKS, b"1\r\nx\r\n" * 100),
    drips("headers of a byte every 5 s", OK, b"X-Slow: yes\r\n" * 100),
    drips("a status line of a byte every 5 s", b"", OK),
    drips("a body that stops", OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 500, b"x"),
    Case("no headers ever", "timeout", Misbehaviour.wait),
    # broken
    Case("a reset in the body", "connection_lost", lambda b, c: reset(b, c, OK + b"Content-Length: 1000\r\n\r\nabc")),
    Case("a reset in the headers", "connection_lost", lambda b, c: reset(b, c, OK + b"X-A: ")),
    Case("a reset in a chunk", "connection_lost", lambda b, c: reset(b, c, ENDLESS_CHUNKS + b"ff\r\nabc")),
    responds("an end after the status line", "connection_lost", OK),
    responds("an end in the headers", "connection_lost", OK + b"X-A: 1\r\n"),
    responds("an end in a chunk", "connection_lost", ENDLESS_CHUNKS + b"ff\r\nabc"),
    responds("a chunk without a size", "connection_lost", ENDLESS_CHUNKS + b"zz\r\nabc\r\n"),
    responds("a chunk size that overflows", "connection_lost", ENDLESS_CHUNKS + b"f" * 40 + b"\r\nabc"),
    responds("a garbage status line", "protocol_error", b"\x16\x03\x01 garbage \xff\r\n\r\n"),
    responds("an empty status", "protocol_error", b"HTTP/1.1 \r\n\r\n"),
    responds("a status of letters", "protocol_error", b"HTTP/1.1 abc OK\r\n\r\n"),
    responds("status 000", "protocol_error", b"HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n"),
    responds("HTTP/0.9", "protocol_error", b"<html>hello</html>"),
    responds("another protocol", "protocol_error", b"220 mail.example.com ESMTP\r\n"),
    responds("a length that is not a number", "protocol_error", OK + b"Content-Length: many\r\n\r\nabc"),
    responds("a negative length", "protocol_error", OK + b"Content-Length: -1\r\n\r\nabc"),
    responds("two lengths", "protocol_error", OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nabc"),
    responds("a NUL in a header", "protocol_error", OK + b"X-Nul: a\0b\r\nContent-Length: 0\r\n\r\n"),
    responds("an unknown transfer coding", "protocol_error", OK + b"Transfer-Encoding: rot13\r\n\r\nabc"),
    responds(
        "another protocol by upgrade",
        "connection_lost",
        b"HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ),
    # redirects and demands
    responds(
        "a redirect to a metadata service",
        "redirect",
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
    ),
    responds(
        "a redirect to a file",
        "redirect",
        b"HTTP/1.1 307 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    ),
    responds(
        "a demand for a password",
        "http_401",
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: Negotiate\r\nContent-Length: 0\r\n\r\n",
    ),
    responds(
        "a demand for a proxy password",
        "http_407",
        b"HTTP/1.1 407 No\r\nProxy-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n",
    ),
    responds("an expectation that failed", "http_417", b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n"),
    # unusual, but successful
    responds(
        "a gzip bomb", None, OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(bomb()), bomb())
    ),
    responds("a body after 204", None, b"HTTP/1.1 204 None\r\nContent-Length: 100000000\r\n\r\n" + PIECE * 8),
    responds("a second response after the response", None, OK + b"Content-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\n\r\n"),
]
