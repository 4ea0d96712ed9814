"""Events a second through the HTTP API of a real web server, next to bare INSERTs of the same rows in the same run.

DATABASE_URL names a scratch database on a server, which is made anew and dropped at the end. Rounds alternate, so that
a noisy machine disturbs all alike; medians are compared. Load, web server and database share this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.scratch import scratch_database

ROOT = Path(__file__).resolve().parent.parent
PAYLOAD = {"order": 123456, "customer": "c-1", "lines": [{"sku": "A", "n": 2}] * 10}
SINGLE_CONNECTIONS = 16
BATCH_CONNECTIONS = 4
BATCH = 1000
SERVERS = {
    "gunicorn": ["gunicorn", "webhookhub.wsgi", "--worker-class", "gthread", "--log-level", "warning"],
    "granian": ["granian", "webhookhub.wsgi:application", "--interface", "wsgi", "--no-log-access"],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    parser.add_argument("--server", choices=SERVERS, default="gunicorn", help="granian must be installed for it")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    options = parser.parse_args()
    os.environ["WEBHOOKHUB_LOG_LEVEL"] = "WARNING"
    os.environ["WEBHOOKHUB_API_EVENTS_PER_SECOND"] = "100000"
    with scratch_database():
        key = _key()
        with _server(options.server, options.workers, options.threads) as port:
            kinds: dict[str, Callable[[float], float]] = {
                "API, single": lambda seconds: _through_api(port, key, 1, SINGLE_CONNECTIONS, seconds),
                "bare INSERT, single": lambda seconds: _bare(1, SINGLE_CONNECTIONS, seconds),
                f"API, batches of {BATCH}": lambda seconds: _through_api(port, key, BATCH, BATCH_CONNECTIONS, seconds),
                f"bare INSERT of {BATCH}": lambda seconds: _bare(BATCH, BATCH_CONNECTIONS, seconds),
            }
            rates: dict[str, list[float]] = {name: [] for name in kinds}
            for number in range(options.rounds + 1):
                for name, measure in kinds.items():
                    rate = measure(options.seconds)
                    if number:  # the first round makes connections and fills caches
                        rates[name].append(rate)
    print(f"{options.server}, {options.workers} processes with {options.threads} threads each")
    for name, found in rates.items():
        print(f"{name:<24}{statistics.median(found):>9.0f} events/s   {min(found):.0f} to {max(found):.0f}")
    names = list(kinds)
    for ours, theirs in (names[:2], names[2:]):
        ratio = statistics.median(a / b for a, b in zip(rates[ours], rates[theirs], strict=True))
        print(f"{ours} / {theirs}: {ratio:.2f}")
    return 0


def _key() -> str:
    from api import keys
    from api.scopes import EVENTS_WRITE

    return keys.create("bench", (EVENTS_WRITE,), by="bench", source="bench")[1]


@contextmanager
def _server(name: str, workers: int, threads: int) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    where = ["--bind", f"127.0.0.1:{port}", "--threads", str(threads)]
    if name == "granian":
        where = ["--host", "127.0.0.1", "--port", str(port), "--blocking-threads", str(threads)]
    command = [sys.executable, "-m", *SERVERS[name], *where, "--workers", str(workers)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} did not start")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def _event() -> dict[str, Any]:
    return {"event_type": "order.created", "payload": PAYLOAD, "external_id": uuid.uuid4().hex}


def _together(connections: int, work: Callable[[], int]) -> float:
    """The rate of `work`, which returns how many events it has stored, on so many threads."""
    started = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        stored = sum(each.result() for each in [pool.submit(work) for _ in range(connections)])
    return stored / (time.perf_counter() - started)


def _through_api(port: int, key: str, size: int, connections: int, seconds: float) -> float:
    path = "/api/v1/events" if size == 1 else "/api/v1/events/batch"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    )

    def send() -> int:
        stored = 0
        until = time.perf_counter() + seconds
        with socket.create_connection(("127.0.0.1", port)) as connection:
            while time.perf_counter() < until:
                document = _event() if size == 1 else {"events": [_event() for _ in range(size)]}
                body = json.dumps(document, separators=(",", ":")).encode()
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                status, answer = _answer(connection)
                assert status == (201 if size == 1 else 200), answer
                assert size == 1 or answer.count(b'"status": 201') == size, answer[:500]
                stored += size
        return stored

    return _together(connections, send)


def _answer(connection: socket.socket) -> tuple[int, bytes]:
    """As little as it takes to know a status and a body: what measures must not cost more than what is measured."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += _some(connection)
    return int(head.split(b" ", 2)[1]), body


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(262144)
    if not data:
        raise SystemExit("the web server closed a connection")
    return data


def _bare(size: int, connections: int, seconds: float) -> float:
    """The least that stores the same: one statement, one commit, no look at what was there."""
    from django.db import connection as model

    from webhookhub.ids import new_uid

    payload = json.dumps(PAYLOAD, separators=(",", ":"))
    columns = "(uid, event_type, source, external_id, correlation_id, payload)"
    sql = f"INSERT INTO events {columns} VALUES " + ", ".join(["(%s, %s, %s, %s, %s, %s)"] * size)  # noqa: S608

    def insert() -> int:
        stored = 0
        own = model.copy()
        try:
            with own.cursor() as cursor:
                until = time.perf_counter() + seconds
                while time.perf_counter() < until:
                    values: list[str] = []
                    for _ in range(size):
                        uid = new_uid().hex
                        values += [uid, "order.created", "bare", uuid.uuid4().hex, uid, payload]
                    cursor.execute(sql, values)
                    stored += size
        finally:
            own.close()
        return stored

    return _together(connections, insert)


if __name__ == "__main__":
    raise SystemExit(main())
