"""A forward proxy on loopback that serves CONNECT only and stores what it was asked for."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Asked:
    """The target of a CONNECT request, and its headers by lower-case name."""

    target: str
    headers: dict[str, str]

    @property
    def credentials(self) -> str:
        scheme, _, encoded = self.headers.get("proxy-authorization", "").partition(" ")
        return base64.b64decode(encoded).decode() if scheme == "Basic" else ""


class ConnectProxy:
    """Serves inside its `with` block. With a certificate, it speaks TLS itself.

    `reply` is a status line to refuse with, `SILENT` to say nothing or `CLOSE` to close; empty: it opens the tunnel.
    `refused` has such replies by target. `routes` are the loopback ports of other targets.
    """

    SILENT = "silent"
    CLOSE = "close"

    def __init__(self, *, credentials: str = "", certificate: Path | None = None, port: int = 0) -> None:
        self.asked: list[Asked] = []
        self.reply = ""
        self.refused: dict[str, str] = {}
        self.routes: dict[str, int] = {}
        self.accepted = 0
        self._credentials = credentials
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = int(self._listener.getsockname()[1])

    def url(self, host: str = "127.0.0.1", credentials: str = "") -> str:
        scheme = "https" if self._context else "http"
        return f"{scheme}://{credentials and credentials + '@'}{host}:{self.port}"

    def __enter__(self) -> ConnectProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(30)
        with contextlib.suppress(OSError), client:
            if self._context is None:
                self._answer(client)
            else:
                with self._context.wrap_socket(client, server_side=True) as secure:
                    self._answer(secure)

    def _answer(self, client: socket.socket) -> None:
        asked = _read(client)
        if asked is None:
            return
        self.asked.append(asked)
        reply = self.refused.get(asked.target, self.reply)
        if not reply and asked.credentials != self._credentials:
            reply = '407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="proxy"'
        if reply == self.SILENT:
            self._closing.wait(30)
        elif reply and reply != self.CLOSE:
            client.sendall(f"HTTP/1.1 {reply}\r\nContent-Length: 6\r\n\r\nsorry\n".encode())
        elif not reply:
            host, _, port = asked.target.rpartition(":")
            route = self.routes.get(asked.target)
            address = (host.strip("[]"), int(port)) if route is None else ("127.0.0.1", route)
            with socket.create_connection(address, 5) as upstream:
                client.sendall(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
                _relay(client, upstream)


def _read(client: socket.socket) -> Asked | None:
    """The CONNECT request; None if the client has closed or sends something else."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = client.recv(65536)
        if not chunk:
            return None
        data += chunk
    first, *lines = data.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Asked(target, headers) if method == "CONNECT" else None


def _relay(client: socket.socket, upstream: socket.socket) -> None:
    upstream.settimeout(30)
    back = threading.Thread(target=_copy, args=(upstream, client), daemon=True)
    back.start()
    _copy(client, upstream)
    back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
