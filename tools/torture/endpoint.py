"""`python -m tools.torture.receiver FOLDER SEED`: a real HTTPS receiver that answers well, badly, slowly or not at all.

It writes down every request and what it is about to answer, before it answers. What it does depends on the event and
the attempt, not on chance: the same attempt sent twice is treated the same. Prints the URL of each path.
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

from .journal import Journal
from .plan import REQUEST_SECONDS
from .stage import PATHS

JOURNAL = "received.jsonl"
OK, DROP, HANG, DRIP, GARBAGE = "200", "drop", "hang", "drip", "garbage"
SLOW_OK = "200 at last"
CHALLENGE = "challenge"
# What each path does, and how often. `drop` is: take it, and close the connection without a word.
MANNERS = {
    "/steady": {OK: 97, "201": 2, DROP: 1},
    "/flaky": {OK: 58, "500": 15, "503": 8, "429": 4, DROP: 10, GARBAGE: 5},
    "/broken": {"500": 80, DROP: 20},
    "/slow": {HANG: 20, DRIP: 20, SLOW_OK: 30, OK: 30},
}
LATE_SECONDS = REQUEST_SECONDS * 1.5
KEY = re.compile(rb'"key": ?"([^"]*)"')


class Receiver:
    def __init__(self, journal: Journal, seed: str) -> None:
        self._journal = journal
        self._seed = seed
        self._lock = threading.Lock()

    def serve(self, connection: ssl.SSLSocket) -> None:
        while request := read_request(connection):
            if not self._take(connection, request):
                return

    def _take(self, connection: ssl.SSLSocket, request: bytes) -> bool:
        """Whether the connection stays open. Nothing is understood of the body before it is written down."""
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        path, uid, attempt = first.split(" ")[1], headers.get("webhook-id", ""), headers.get("webhook-attempt", "")
        found = KEY.search(body)
        manner = self._manner(path, found[1].decode() if found else uid, attempt) if attempt else CHALLENGE
        with self._lock:
            self._journal.write(
                "received" if attempt else "challenged",
                uid=uid,
                path=path,
                attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else 0,
                body=hashlib.sha256(body).hexdigest(),
                timestamp=headers.get("webhook-timestamp", ""),
                signature=headers.get("webhook-signature", ""),
                answer=manner,
            )
        if manner == CHALLENGE:
            return say(connection, 200, json.loads(body)["data"]["challenge"].encode())
        return answer(connection, manner)

    def _manner(self, path: str, key: str, attempt: str) -> str:
        manners = MANNERS[path]
        dice = random.Random(f"{self._seed}:{path}:{key}:{attempt}")
        return dice.choices(list(manners), list(manners.values()))[0]


def answer(connection: ssl.SSLSocket, manner: str) -> bool:
    if manner == DROP:
        return False
    if manner == HANG:
        time.sleep(LATE_SECONDS)
        return False
    if manner == DRIP:
        until = time.monotonic() + LATE_SECONDS
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while time.monotonic() < until:
            connection.sendall(b"x")
            time.sleep(0.2)
        return False
    if manner == GARBAGE:
        connection.sendall(b"this is not HTTP\r\n\r\n")
        return False
    if manner == SLOW_OK:
        time.sleep(REQUEST_SECONDS / 2)
    return say(connection, int(manner.partition(" ")[0]), b"said on purpose")


def say(connection: ssl.SSLSocket, status: int, body: bytes) -> bool:
    extra = b"Retry-After: 1\r\n" if status in (429, 503) else b""
    connection.sendall(b"HTTP/1.1 %d Said\r\n%bContent-Length: %d\r\n\r\n%b" % (status, extra, len(body), body))
    return True


def main() -> None:
    folder, seed = Path(sys.argv[1]), sys.argv[2]
    with ExitStack() as stack:
        receiver = Receiver(stack.enter_context(Journal(folder / JOURNAL)), seed)
        # A port for each path: how a worker treats a receiver depends on how that receiver has behaved.
        urls = {}
        for path in PATHS:
            endpoint = stack.enter_context(RawEndpoint(folder / certificates.SERVER, receiver.serve))
            urls[path] = endpoint.url.removesuffix("/hook") + path
        sys.stdout.write(json.dumps(urls) + "\n")
        sys.stdout.flush()
        sys.stdin.read()  # until whoever started it lets go


if __name__ == "__main__":
    main()
