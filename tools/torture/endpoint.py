"""`python -m tools.torture.endpoint FOLDER SEED [HOST]`: an HTTPS endpoint that responds correctly, wrongly, slowly or
not at all.

It records every request and its response before it responds. The response depends only on the event and the attempt, so
that a repeated attempt gets the same one. Prints the URLs by path as JSON.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import ssl
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from tools.demo import certificates
from tools.support.raw_endpoint import RawEndpoint, read_request

from .config import REQUEST_SECONDS
from .journal import Journal
from .prepare import PATHS

JOURNAL = "received.jsonl"
# DROP closes the connection without a response.
OK, DROP, HANG, DRIP, GARBAGE = "200", "drop", "hang", "drip", "garbage"
SLOW_OK = "200 late"
CHALLENGE = "challenge"
# The responses of each path, with their weights.
RESPONSES = {
    "/steady": {OK: 97, "201": 2, DROP: 1},
    "/flaky": {OK: 58, "500": 15, "503": 8, "429": 4, DROP: 10, GARBAGE: 5},
    "/broken": {"500": 80, DROP: 20},
    "/slow": {HANG: 20, DRIP: 20, SLOW_OK: 30, OK: 30},
}
HANG_SECONDS = REQUEST_SECONDS * 1.5
KEY = re.compile(rb'"key": ?"([^"]*)"')


class Endpoint:
    def __init__(self, journal: Journal, seed: str) -> None:
        self._journal = journal
        self._seed = seed
        self._lock = threading.Lock()

    def serve(self, connection: ssl.SSLSocket) -> None:
        while request := read_request(connection):
            if not self._handle(connection, request):
                return

    def _handle(self, connection: ssl.SSLSocket, request: bytes) -> bool:
        """Returns whether the connection stays open. Records the request before it parses the body."""
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        path, uid, attempt = first.split(" ")[1], headers.get("webhook-id", ""), headers.get("webhook-attempt", "")
        key = KEY.search(body)
        response = self._choose(path, key[1].decode() if key else uid, attempt) if attempt else CHALLENGE
        with self._lock:
            self._journal.write(
                "received" if attempt else "challenged",
                uid=uid,
                path=path,
                attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else 0,
                body=hashlib.sha256(body).hexdigest(),
                timestamp=headers.get("webhook-timestamp", ""),
                signature=headers.get("webhook-signature", ""),
                response=response,
            )
        if response == CHALLENGE:
            return send(connection, 200, json.loads(body)["data"]["challenge"].encode())
        return respond(connection, response)

    def _choose(self, path: str, key: str, attempt: str) -> str:
        responses = RESPONSES[path]
        rng = random.Random(f"{self._seed}:{path}:{key}:{attempt}")
        return rng.choices(list(responses), list(responses.values()))[0]


def respond(connection: ssl.SSLSocket, response: str) -> bool:
    if response == DROP:
        return False
    if response == HANG:
        time.sleep(HANG_SECONDS)
        return False
    if response == DRIP:
        until = time.monotonic() + HANG_SECONDS
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while time.monotonic() < until:
            connection.sendall(b"x")
            time.sleep(0.2)
        return False
    if response == GARBAGE:
        connection.sendall(b"this is not HTTP\r\n\r\n")
        return False
    if response == SLOW_OK:
        time.sleep(REQUEST_SECONDS / 2)
    return send(connection, int(response.partition(" ")[0]), b"on purpose")


def send(connection: ssl.SSLSocket, status: int, body: bytes) -> bool:
    extra = b"Retry-After: 1\r\n" if status in (429, 503) else b""
    connection.sendall(b"HTTP/1.1 %d Status\r\n%bContent-Length: %d\r\n\r\n%b" % (status, extra, len(body), body))
    return True


def main() -> None:
    folder, seed, *host = Path(sys.argv[1]), *sys.argv[2:]
    with ExitStack() as stack:
        endpoint = Endpoint(stack.enter_context(Journal(folder / JOURNAL)), seed)
        # One port for each path, because workers treat endpoints by host and port.
        urls = {}
        for path in PATHS:
            listener = stack.enter_context(RawEndpoint(folder / certificates.SERVER, endpoint.serve, *host))
            urls[path] = listener.url.removesuffix("/hook") + path
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()
        sys.stdin.read()  # returns when the parent closes it


if __name__ == "__main__":
    main()
