"""A producer in a process of its own: posts events to the HTTP API over connections that stay open.

One thread with plain sockets and select(), because it shares the machine with the hub.
"""

from __future__ import annotations

import multiprocessing
import re
import select
import signal
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from tools.bench.load import PAYLOAD

READ_BYTES = 256 * 1024
# A pause between two bytes of the API; the whole run may take longer.
STALL_SECONDS = 60.0
LEAD_SECONDS = 0.05
MAX_REPEATED = 100
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
UID = re.compile(rb'"uid": ?"([^"]+)"')


class Posted(NamedTuple):
    """A request: the uids of its events, when it was due and when its response was complete (monotonic clock)."""

    uids: list[str]
    due: float
    done: float


class Producer:
    """Controls the producer's process."""

    def __init__(self, pid: int, control: Connection) -> None:
        self.pid = pid
        self._control = control

    def drain(
        self, port: int, key: str, event_type: str, count: int, *, size: int = 1, connections: int = 16
    ) -> list[Posted]:
        """Posts `count` events in requests of `size`. Each connection sends when its last response has arrived.

        A request is due when it is sent.
        """
        return self._call(port, _requests(port, key, event_type, count, size), size, 0.0, connections)

    def trickle(
        self, port: int, key: str, event_type: str, count: int, rate: float, *, connections: int = 64
    ) -> list[Posted]:
        """Posts `count` single events at a fixed rate, whether or not earlier responses have arrived."""
        return self._call(port, _requests(port, key, event_type, count, 1), 1, rate, connections)

    def _call(self, *command: object) -> list[Posted]:
        self._control.send(command)
        response = self._control.recv()
        if isinstance(response, str):
            raise RuntimeError(response)
        return [Posted(*fields) for fields in response]


@contextmanager
def run_producer() -> Iterator[Producer]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()  # so that each side notices the end of the other
    try:
        assert process.pid is not None
        yield Producer(process.pid, ours)
    finally:
        process.terminate()
        process.join()


def _requests(port: int, key: str, event_type: str, count: int, size: int) -> list[bytes]:
    """Complete requests; the external ids are different in each call."""
    run = uuid.uuid4().hex
    events = [
        f'{{"event_type":"{event_type}","external_id":"{run}-{number}","payload":{PAYLOAD}}}' for number in range(count)
    ]
    if size == 1:
        path, bodies = "/api/v1/events", events
    else:
        path = "/api/v1/events/batch"
        bodies = [f'{{"events":[{",".join(events[start : start + size])}]}}' for start in range(0, count, size)]
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
    )
    return [f"{head}{len(body)}\r\n\r\n{body}".encode() for body in bodies]


class _Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STALL_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.request: int | None = None  # that waits for its response

    def fileno(self) -> int:
        return self.socket.fileno()


class _Run:
    """Sends all requests once: each when it is due and a connection is free."""

    def __init__(self, port: int, requests: Sequence[bytes], size: int, rate: float, connections: int) -> None:
        self._port = port
        self._requests = requests
        self._size = size
        self._limit = connections
        self._open: list[_Connection] = []
        # The last one used is first, so that a low rate needs few connections.
        self._idle: list[_Connection] = []
        start = time.monotonic() + LEAD_SECONDS
        self._due = [start + number / rate if rate else 0.0 for number in range(len(requests))]
        self._waiting = list(range(len(requests) - 1, -1, -1))
        self._posted: list[Posted | None] = [None] * len(requests)
        self._done = 0
        self._repeated = 0

    def run(self) -> list[Posted]:
        progress = time.monotonic()
        try:
            while self._done < len(self._requests):
                pause = self._send_due()
                readable, _, _ = select.select(self._open, [], [], min(pause, 1.0))
                before = self._done
                for connection in readable:
                    self._receive(connection)
                if self._done > before or pause < STALL_SECONDS:
                    progress = time.monotonic()
                elif time.monotonic() - progress > STALL_SECONDS:
                    raise RuntimeError(f"{self._done} of {len(self._requests)} requests have a response")
        finally:
            for connection in self._open:
                connection.socket.close()
        return [posted for posted in self._posted if posted]

    def _send_due(self) -> float:
        """Returns the seconds until the next request is due; STALL_SECONDS if none can be sent before a response."""
        while self._waiting:
            now = time.monotonic()
            if (pause := self._due[self._waiting[-1]] - now) > 0:
                return pause
            if not self._idle and len(self._open) >= self._limit:
                return STALL_SECONDS
            if not self._idle:
                self._idle.append(self._connect())
            self._send(self._idle.pop(), self._waiting.pop(), now)
        return STALL_SECONDS

    def _connect(self) -> _Connection:
        connection = _Connection(self._port)
        self._open.append(connection)
        return connection

    def _send(self, connection: _Connection, request: int, now: float) -> None:
        self._due[request] = self._due[request] or now
        connection.request = request
        try:
            connection.socket.sendall(self._requests[request])
        except OSError:
            self._drop(connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        connection.buffer += data
        end = connection.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = connection.buffer[:end]
        length = LENGTH.search(head)
        if length is None:
            raise RuntimeError(f"a response without Content-Length: {head!r}")
        body = connection.buffer[end + 4 :]
        if len(body) >= int(length[1]):
            self._finish(connection, head, body)

    def _finish(self, connection: _Connection, head: bytes, body: bytes) -> None:
        request = connection.request
        uids = [uid.decode() for uid in UID.findall(body)]
        wanted = self._size if request != len(self._requests) - 1 else len(uids)  # the last batch may be smaller
        if request is None or head.split(b" ", 2)[1] not in (b"200", b"201") or not uids or len(uids) != wanted:
            raise RuntimeError(f"unexpected response: {head.decode()}\n{body[:1000].decode()}")
        self._posted[request] = Posted(uids, self._due[request], time.monotonic())
        self._done += 1
        connection.request, connection.buffer = None, b""
        self._idle.append(connection)

    def _drop(self, connection: _Connection) -> None:
        """The server may close an idle connection at any time. The external id makes it safe to send again."""
        connection.socket.close()
        self._open.remove(connection)
        if connection.request is None:
            self._idle.remove(connection)
            return
        self._repeated += 1
        if self._repeated > MAX_REPEATED:
            raise RuntimeError("the server closes connections without a response")
        self._waiting.append(connection.request)


def _serve(control: Connection) -> None:
    # The parent handles Ctrl-C: it ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            command: Any = control.recv()
        except EOFError:
            return
        try:
            control.send([tuple(posted) for posted in _Run(*command).run()])
        except (RuntimeError, OSError) as error:
            control.send(f"the producer failed: {error}")
