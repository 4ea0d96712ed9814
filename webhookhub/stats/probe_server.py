"""/healthz and /readyz on an address of their own, with threads of their own.

They respond when all connections or threads of the web server are in use, and while the database hangs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from waitress import create_server

from . import readiness

THREADS = 16
# Together with the web server's connections below the usual limit of 1,024 open files.
MAX_CONNECTIONS = 50
IDLE_SECONDS = 2
MAX_BODY = 1024
# The web server's loop runs every second. It is stuck after so many seconds.
STUCK_SECONDS = 10.0
NOT_FOUND = "Only /healthz and /readyz are served here."
METHODS = ("GET", "HEAD")


class ProbeServer:
    """`last_turn` returns when the web server's loop last ran, by the monotonic clock."""

    def __init__(self, address: str, last_turn: Callable[[], float]) -> None:
        self._last_turn = last_turn
        self._server = create_server(
            self._respond,
            map={},
            listen=address,
            threads=THREADS,
            connection_limit=MAX_CONNECTIONS,
            channel_timeout=IDLE_SECONDS,
            cleanup_interval=1,
            max_request_body_size=MAX_BODY,
            ident=None,
        )

    def start(self) -> None:
        """Serves in a thread until the process ends."""
        threading.Thread(target=self._server.run, name="probes", daemon=True).start()

    def _respond(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path not in ("/healthz", "/readyz"):
            status, document = "404 Not Found", {"status": NOT_FOUND}
        elif method not in METHODS:
            status, document = "405 Method Not Allowed", {"status": f"Method {method} is not allowed; use GET."}
        else:
            code, document = self._health() if path == "/healthz" else readiness.report()
            status = "200 OK" if code == 200 else "503 Service Unavailable"
        body = json.dumps(document).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *([("Allow", ", ".join(METHODS))] if status.startswith("405") else []),
        ]
        start_response(status, headers)
        return [] if method == "HEAD" else [body]

    def _health(self) -> tuple[int, dict[str, Any]]:
        silent = time.monotonic() - self._last_turn()
        if silent > STUCK_SECONDS:
            return 503, {"status": f"the web server has handled nothing for {silent:.0f} s"}
        return 200, {"status": "alive"}
