"""The receiver's own process: one thread, epoll and TLS sockets, and no more Python per request than it takes.

It shares the machine with what it measures. With asyncio, a request costs twice as much (41 µs instead of 23).
"""

from __future__ import annotations

import select
import signal
import socket
import ssl
import time
from collections import deque
from multiprocessing.connection import Connection

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAILURE = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\n\r\nfailed"
LENGTH = b"content-length:"
MESSAGE_ID = b"webhook-id:"
READ_BYTES = 256 * 1024


class Link:
    """One connection: handshake first, then requests."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, port: int) -> None:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.secure = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self.port = port
        self.ready = False
        self.buffer = b""


class Loop:
    def __init__(self, context: ssl.SSLContext, listeners: list[socket.socket], control: Connection) -> None:
        self._context = context
        self._control = control
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._links: dict[int, Link] = {}
        self._held: deque[tuple[float, Link, bytes]] = deque()
        self._epoll = select.epoll()
        for number in [*self._listeners, control.fileno()]:
            self._epoll.register(number, select.EPOLLIN)
        self._delay = 0.0
        self._failures = 0.0
        self._debt = 0.0
        self._failed = 0
        self._arrivals: list[tuple[float, int, bytes]] = []

    def run(self) -> None:
        while True:
            wait = -1.0 if not self._held else max(0.0, self._held[0][0] - time.monotonic())
            for number, _ in self._epoll.poll(wait):
                if link := self._links.get(number):
                    self._hear(number, link)
                elif number in self._listeners:
                    self._accept(self._listeners[number])
                elif not self._obey():
                    return
            while self._held and self._held[0][0] <= time.monotonic():
                _, link, answer = self._held.popleft()
                self._say(link, answer)

    def _accept(self, listener: socket.socket) -> None:
        plain, _ = listener.accept()
        link = Link(plain, self._context, listener.getsockname()[1])
        self._links[link.secure.fileno()] = link
        self._epoll.register(link.secure.fileno(), select.EPOLLIN)

    def _hear(self, number: int, link: Link) -> None:
        try:
            if not link.ready:
                link.secure.do_handshake()
                link.ready = True
            data = link.secure.recv(READ_BYTES)
            while link.secure.pending():
                data += link.secure.recv(READ_BYTES)
        except ssl.SSLWantReadError:
            return
        except OSError:
            data = b""
        if not data:
            self._epoll.unregister(number)
            del self._links[number]
            link.secure.close()
            return
        link.buffer = link.buffer + data if link.buffer else data
        self._read(link)

    def _read(self, link: Link) -> None:
        while (end := link.buffer.find(b"\r\n\r\n")) >= 0:
            head = link.buffer[:end].lower()
            whole = end + 4 + int(_header(head, LENGTH) or 0)
            if len(link.buffer) < whole:
                return
            link.buffer = link.buffer[whole:]
            self._answer(link, _header(head, MESSAGE_ID))

    def _answer(self, link: Link, message_id: bytes) -> None:
        now = time.monotonic()
        # Spread evenly and without chance: of 0.1, every tenth.
        self._debt += self._failures
        if self._debt >= 1.0:
            self._debt -= 1.0
            self._failed += 1
            answer = FAILURE
        else:
            self._arrivals.append((now, link.port, message_id))
            answer = OK
        if self._delay:
            self._held.append((now + self._delay, link, answer))
        else:
            self._say(link, answer)

    def _say(self, link: Link, answer: bytes) -> None:
        try:
            link.secure.send(answer)
        except (OSError, ValueError):
            return  # it has gone away; epoll says so too

    def _obey(self) -> bool:
        try:
            question, *values = self._control.recv()
        except EOFError:
            return False  # nobody is there any more to ask
        if question == "behave":
            self._delay, self._failures = values
            self._control.send(None)
        elif question == "gauge":
            self._control.send((len(self._arrivals), self._failed, len(self._held)))
        else:
            arrivals, self._arrivals, self._failed = self._arrivals, [], 0
            self._control.send(arrivals)
        return True


def _header(head: bytes, name: bytes) -> bytes:
    begin = head.find(name)
    if begin < 0:
        return b""
    begin += len(name)
    end = head.find(b"\r\n", begin)
    return head[begin : end if end >= 0 else None].strip()


def serve(certificate: str, ports: int, control: Connection) -> None:
    # A Ctrl-C at the terminal is the parent's affair: it ends this process when it has read what is left here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(ports)]
    control.send([listener.getsockname()[1] for listener in listeners])
    Loop(context, listeners, control).run()
