"""An HTTPS endpoint on loopback for the demo and the tests.

It stores the requests and responds with what `respond` returns, by default 200. It echoes verification challenges.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    # The common name in the client's certificate, if one was required.
    client: str = ""

    @property
    def event_uid(self) -> str:
        return self.headers["webhook-id"]

    @property
    def attempt(self) -> int:
        return int(self.headers.get("webhook-attempt", "0"))


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"ok"
    headers: tuple[tuple[str, str], ...] = ()
    before: Callable[[], None] | None = None  # called before the response is sent: to wait, or to fail
    drop: bool = False  # close the connection without a response


class HttpsEndpoint:
    """Serves inside its `with` block."""

    def __init__(
        self,
        certificate: Path,
        respond: Callable[[Received], Reply] | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        client_authority: Path | None = None,
    ) -> None:
        """With `client_authority`, clients need a certificate that it has signed."""
        self.respond = respond or (lambda received: Reply())
        self.received: list[Received] = []
        self.arrived = threading.Condition()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_authority)
        self.context = context
        self._server = _Server((host, port), self, context)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str = "/hook") -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> HttpsEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, count: int, timeout: float = 30.0) -> list[Received]:
        """Waits for at least `count` requests and returns all of them. Raises TimeoutError."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: len(self.received) >= count, timeout):
                raise TimeoutError(f"received {len(self.received)} of {count} requests")
            return list(self.received)

    def take(self, received: Received) -> Reply:
        challenge = verification_challenge(received)
        if challenge is not None:
            return Reply(body=challenge.encode())
        with self.arrived:
            self.received.append(received)
            self.arrived.notify_all()
        return self.respond(received)


def verification_challenge(received: Received) -> str | None:
    """The challenge of a verification request; None for other requests."""
    if b"webhookhub.verification" not in received.body:
        return None
    document = json.loads(received.body)
    return str(document["data"]["challenge"]) if document.get("type") == "webhookhub.verification" else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], endpoint: HttpsEndpoint, context: ssl.SSLContext) -> None:
        self.endpoint = endpoint
        self.context = context
        super().__init__(address, _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        # The TLS handshake runs in the connection's own thread, so that a slow client does not delay others.
        request.settimeout(60)
        try:
            with self.context.wrap_socket(request, server_side=True) as secure:
                super().finish_request(secure, client_address)
        except OSError:
            return  # the client has disconnected

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # some tests kill clients in the middle of a request


def _common_name(connection: ssl.SSLSocket) -> str:
    names: Any = (connection.getpeercert() or {}).get("subject", ())
    return next((str(value) for part in names for name, value in part if name == "commonName"), "")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.endpoint.take(Received(self.path, headers, body, _common_name(self.connection)))
        if reply.before:
            reply.before()
        if reply.drop:
            self.close_connection = True
            return
        self.send_response_only(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
