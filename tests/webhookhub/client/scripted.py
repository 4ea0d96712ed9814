"""A hub with scripted responses: it can fail, stall and drop the connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    document: Any


@dataclass(frozen=True)
class Response:
    status: int = 201
    document: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    drop: bool = False
    before: Callable[[], object] = lambda: None


class ScriptedHub:
    """Sends the responses in order and repeats the last one; with `respond`, sends what that returns."""

    def __init__(self, *responses: Response, respond: Callable[[Request], Response] | None = None) -> None:
        self.requests: list[Request] = []
        script = list(responses)
        lock = threading.Lock()

        def next_response(request: Request) -> Response:
            with lock:
                self.requests.append(request)
                if respond is not None:
                    return respond(request)
                return script.pop(0) if len(script) > 1 else script[0]

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                response = next_response(Request(self.path, dict(self.headers), json.loads(body or b"{}")))
                response.before()
                if response.drop:
                    self.close_connection = True
                    return
                text = (json.dumps(response.document) if response.text is None else response.text).encode()
                self.send_response(response.status)
                for name, value in {"Content-Length": str(len(text)), **response.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_PUT = do_PATCH = do_DELETE = do_POST

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedHub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


def stored(request: Request) -> Response:
    """The response of a hub that stores everything."""
    if request.path.endswith("/batch"):
        results = [
            {"status": 201, "uid": event["external_id"], "correlation_id": "c"} for event in request.document["events"]
        ]
        return Response(200, {"results": results})
    return Response(201, {"uid": "u", "created": True, "correlation_id": "c"})


def problem(status: int, detail: str = "no", **more: Any) -> Response:
    headers = more.pop("headers", {})
    return Response(status, {"title": "t", "status": status, "detail": detail, **more}, headers)
