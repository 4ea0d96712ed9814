"""A cheap HTTPS endpoint in a process of its own, with a configurable delay. It sends challenges back.

One thread with epoll and TLS sockets, because it shares the machine with the hub: 23 µs of CPU per request. With
asyncio a request costs 41 µs.
"""

from __future__ import annotations

import json
import multiprocessing
import select
import signal
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

PATH = "/hook"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LENGTH = b"content-length:"
MESSAGE_ID = b"webhook-id:"
VERIFICATION = b"webhookhub.verification"
READ_BYTES = 256 * 1024


class Arrival(NamedTuple):
    """A request: its time (monotonic clock), port and message id."""

    at: float
    port: int
    message_id: str


@dataclass(frozen=True)
class Counts:
    received: int
    pending: int


class Endpoint:
    """Controls the endpoint's process."""

    def __init__(self, pid: int, ports: list[int], control: Connection) -> None:
        self.pid = pid
        self.ports = ports
        self._control = control

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """One for each port. To the hub, each is an endpoint of its own."""
        return [f"https://127.0.0.1:{port}{PATH}" for port in self.ports]

    def delay(self, seconds: float) -> None:
        """From now on, respond after this time."""
        self._call("delay", seconds)

    def rate(self, per_second: float) -> None:
        """From now on, respond to at most so many requests per second, one after the other; 0: no limit."""
        self._call("rate", per_second)

    def hang(self, hangs: bool) -> None:
        """Whether requests from now on get no response."""
        self._call("hang", hangs)

    def counts(self) -> Counts:
        """Requests since the last `take`, and those of them that still wait for their response."""
        return Counts(*self._call("counts"))

    def take(self) -> list[Arrival]:
        """The requests since the last call, in order."""
        return [Arrival(at, port, message_id.decode()) for at, port, message_id in self._call("take")]

    def _call(self, *command: object) -> Any:
        self._control.send(command)
        return self._control.recv()


@contextmanager
def run_endpoint(certificate: Path, ports: int = 1) -> Iterator[Endpoint]:
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(str(certificate), ports, theirs), daemon=True)
    process.start()
    theirs.close()  # so that each side notices the end of the other
    try:
        numbers = ours.recv()
        assert process.pid is not None
        yield Endpoint(process.pid, numbers, ours)
    finally:
        process.terminate()
        process.join()


def duplicates(arrivals: list[Arrival]) -> int:
    """Requests beyond the first of each delivery."""
    times = Counter((arrival.port, arrival.message_id) for arrival in arrivals)
    return sum(count - 1 for count in times.values())


class _Client:
    """One connection: first the handshake, then requests."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, port: int) -> None:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.secure = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.port = port
        self.ready = False
        self.buffer = b""


class _Server:
    def __init__(self, context: ssl.SSLContext, listeners: list[socket.socket], control: Connection) -> None:
        self._context = context
        self._control = control
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._clients: dict[int, _Client] = {}
        self._pending: deque[tuple[float, _Client]] = deque()
        self._epoll = select.epoll()
        for number in [*self._listeners, control.fileno()]:
            self._epoll.register(number, select.EPOLLIN)
        self._delay = 0.0
        self._spacing = 0.0
        self._hangs = False
        self._arrivals: list[tuple[float, int, bytes]] = []

    def run(self) -> None:
        while True:
            wait = -1.0 if not self._pending else max(0.0, self._pending[0][0] - time.monotonic())
            for number, _ in self._epoll.poll(wait):
                if client := self._clients.get(number):
                    self._receive(number, client)
                elif number in self._listeners:
                    self._accept(self._listeners[number])
                elif not self._handle_command():
                    return
            while self._pending and self._pending[0][0] <= time.monotonic():
                _send(self._pending.popleft()[1])

    def _accept(self, listener: socket.socket) -> None:
        plain, _ = listener.accept()
        client = _Client(plain, self._context, listener.getsockname()[1])
        self._clients[client.secure.fileno()] = client
        self._epoll.register(client.secure.fileno(), select.EPOLLIN)

    def _receive(self, number: int, client: _Client) -> None:
        try:
            if not client.ready:
                client.secure.do_handshake()
                client.ready = True
            data = client.secure.recv(READ_BYTES)
            while client.secure.pending():
                data += client.secure.recv(READ_BYTES)
        except ssl.SSLWantReadError:
            return
        except OSError:
            data = b""
        if not data:
            self._epoll.unregister(number)
            del self._clients[number]
            client.secure.close()
            return
        client.buffer = client.buffer + data if client.buffer else data
        self._parse(client)

    def _parse(self, client: _Client) -> None:
        while (end := client.buffer.find(b"\r\n\r\n")) >= 0:
            head = client.buffer[:end].lower()
            length = end + 4 + int(_header(head, LENGTH) or 0)
            if len(client.buffer) < length:
                return
            body, client.buffer = client.buffer[end + 4 : length], client.buffer[length:]
            if VERIFICATION in body:
                client.secure.send(_challenge_response(body))
            else:
                self._respond(client, _header(head, MESSAGE_ID))

    def _respond(self, client: _Client, message_id: bytes) -> None:
        now = time.monotonic()
        self._arrivals.append((now, client.port, message_id))
        if self._hangs:
            return
        if self._spacing:
            last = self._pending[-1][0] if self._pending else now
            self._pending.append((last + self._spacing, client))
        elif self._delay:
            self._pending.append((now + self._delay, client))
        else:
            _send(client)

    def _handle_command(self) -> bool:
        """Returns False if the parent has gone."""
        try:
            command, *values = self._control.recv()
        except EOFError:
            return False
        if command == "delay":
            [self._delay] = values
            self._control.send(None)
        elif command == "rate":
            self._spacing = 1 / values[0] if values[0] else 0.0
            self._control.send(None)
        elif command == "hang":
            [self._hangs] = values
            self._control.send(None)
        elif command == "counts":
            self._control.send((len(self._arrivals), len(self._pending)))
        else:
            arrivals, self._arrivals = self._arrivals, []
            self._control.send(arrivals)
        return True


def _challenge_response(body: bytes) -> bytes:
    challenge = str(json.loads(body)["data"]["challenge"]).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(challenge), challenge)


def _send(client: _Client) -> None:
    try:
        client.secure.send(OK)
    except (OSError, ValueError):
        return  # disconnected; epoll reports it, too


def _header(head: bytes, name: bytes) -> bytes:
    start = head.find(name)
    if start < 0:
        return b""
    start += len(name)
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else None].strip()


def _serve(certificate: str, ports: int, control: Connection) -> None:
    # The parent handles Ctrl-C: it reads what is left here before it ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(ports)]
    control.send([listener.getsockname()[1] for listener in listeners])
    _Server(context, listeners, control).run()
