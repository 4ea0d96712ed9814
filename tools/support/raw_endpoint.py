"""A TLS endpoint, on loopback by default, that runs a script for each connection, HTTP or not."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Script = Callable[[ssl.SSLSocket], None]


class RawEndpoint:
    """A context manager; a script must not wait beyond `closing`."""

    def __init__(self, certificate: Path, script: Script, host: str = "127.0.0.1") -> None:
        self.accepted = 0
        self.closing = threading.Event()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self._script = script
        self._listener = socket.create_server((host, 0), backlog=128)

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        return f"https://{host}:{port}/hook"

    def __enter__(self) -> RawEndpoint:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def hold(self) -> None:
        """For a script that keeps its connection open and sends nothing."""
        self.closing.wait(30)

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Many scripts make the client disconnect.
        with contextlib.suppress(OSError), self.context.wrap_socket(plain, server_side=True) as secure:
            self._script(secure)


def read_request(connection: ssl.SSLSocket) -> bytes:
    """One whole request; empty if the client has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return b""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        chunk = connection.recv(65536)
        if not chunk:
            return b""  # the client closed within the request
        body += chunk
    return head + b"\r\n\r\n" + body


def responding(*parts: bytes) -> Script:
    """A script that reads one request, writes the parts and closes."""

    def script(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        for part in parts:
            connection.sendall(part)
        # An orderly shutdown, so that the sent bytes arrive before the end.
        with contextlib.suppress(OSError):
            connection.settimeout(0)  # without waiting for the client's side of the shutdown
            connection.unwrap()

    return script
