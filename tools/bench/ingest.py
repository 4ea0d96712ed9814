"""Events per second through the HTTP API of a real web server, beside plain INSERTs of the same rows.

DATABASE_URL names a scratch database on a server, which is created and dropped at the end. Rounds alternate, so that a
busy machine affects all equally; medians are compared. Load, web server and database share the machine.
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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tools.bench import load, machine
from tools.bench.scratch_database import scratch_database
from tools.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PAYLOAD = json.loads(load.PAYLOAD)
INSERT, API = "plain INSERT", "HTTP API"
# Events per request: concurrent connections.
SIZES = {1: 16, 1000: 4}
GUNICORN = ["gunicorn", "webhookhub.wsgi", "--worker-class", "gthread", "--log-level", "warning"]
START_SECONDS = 30.0
Measured = Mapping[tuple[str, int], Sequence[float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.ingest", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each measurement")
    options = parser.parse_args()
    os.environ["WEBHOOKHUB_LOG_LEVEL"] = "WARNING"
    os.environ["WEBHOOKHUB_API_EVENTS_PER_SECOND"] = "100000"
    with scratch_database(), _web_server(options.workers, options.threads) as (port, pid):
        key = _create_key()
        rates: dict[tuple[str, int], list[float]] = defaultdict(list)
        cpu: dict[tuple[str, int], list[float]] = defaultdict(list)
        measurements: dict[tuple[str, int], Callable[[], tuple[float, int]]] = {}
        for size, connections in SIZES.items():
            measurements[INSERT, size] = partial(_insert, size, connections, options.seconds)
            measurements[API, size] = partial(_through_api, port, key, size, connections, options.seconds)
        for number in range(options.rounds + 1):
            for name, measure in measurements.items():
                before = machine.cpu_of(machine.process_tree(pid))
                rate, stored = measure()
                if number:  # the first round opens connections and fills caches
                    rates[name].append(rate)
                    cpu[name].append((machine.cpu_of(machine.process_tree(pid)) - before) / stored * 1e6)
    _print(rates, cpu, f"{options.workers} processes with {options.threads} threads each")
    return 0


def _print(rates: Measured, cpu: Measured, server: str) -> None:
    print(f"gunicorn: {server}. Median of {len(rates[API, 1])} rounds:")
    print(f"{'':<14}{'batch':>8}{'events/s':>10}   spread            ÷ INSERT   µs of CPU of the web server per event")
    for size in SIZES:
        for name in (INSERT, API):
            values = rates[name, size]
            # Neighbouring rounds are compared, because disturbances of the machine last longer than one round.
            ratio = statistics.median(ours / theirs for ours, theirs in zip(values, rates[INSERT, size], strict=True))
            spread = f"{min(values):.0f} to {max(values):.0f}"
            used = f"{statistics.median(cpu[name, size]):.0f}" if name == API else ""
            print(f"{name:<14}{size:>8}{statistics.median(values):>10.0f}   {spread:<18}{ratio:<11.2f}{used}")


def _create_key() -> str:
    from api import keys
    from api.scopes import EVENTS_WRITE

    return keys.create("bench", (EVENTS_WRITE,), by="bench", source="bench")[1]


@contextmanager
def _web_server(workers: int, threads: int) -> Iterator[tuple[int, int]]:
    """Yields its port and process id."""
    port = free_port()
    options = ["--bind", f"127.0.0.1:{port}", "--threads", str(threads), "--workers", str(workers)]
    process = subprocess.Popen([sys.executable, "-m", *GUNICORN, *options], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_SECONDS
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit("gunicorn did not start")
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _event() -> dict[str, Any]:
    return {"event_type": "order.created", "payload": PAYLOAD, "external_id": uuid.uuid4().hex}


def _run_in_threads(count: int, work: Callable[[], int]) -> tuple[float, int]:
    """Runs `work`, which returns the number of events it stored, in `count` threads. Returns the rate and the total."""
    started = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        stored = sum(future.result() for future in [pool.submit(work) for _ in range(count)])
    return stored / (time.perf_counter() - started), stored


def _through_api(port: int, key: str, size: int, connections: int, seconds: float) -> tuple[float, int]:
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
                status, response = _read_response(connection)
                assert status == (201 if size == 1 else 200), response
                assert size == 1 or response.count(b'"status": 201') == size, response[:500]
                stored += size
        return stored

    return _run_in_threads(connections, send)


def _read_response(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body, parsed as cheaply as possible: the load shares the machine with the server."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _receive(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += _receive(connection)
    return int(head.split(b" ", 2)[1]), body


def _receive(connection: socket.socket) -> bytes:
    data = connection.recv(262144)
    if not data:
        raise SystemExit("the web server closed a connection")
    return data


def _insert(size: int, connections: int, seconds: float) -> tuple[float, int]:
    """One statement and one commit per batch, without looking for duplicates."""
    from django.db import connection as default

    from webhookhub.ids import new_uid

    columns = "(uid, event_type, source, external_id, correlation_id, payload)"
    sql = f"INSERT INTO events {columns} VALUES " + ", ".join(["(%s, %s, %s, %s, %s, %s)"] * size)

    def insert() -> int:
        stored = 0
        connection = default.copy()
        try:
            with connection.cursor() as cursor:
                until = time.perf_counter() + seconds
                while time.perf_counter() < until:
                    values: list[str] = []
                    for _ in range(size):
                        uid = new_uid().hex
                        values += [uid, "order.created", "insert", uuid.uuid4().hex, uid, load.PAYLOAD]
                    cursor.execute(sql, values)
                    stored += size
        finally:
            connection.close()
        return stored

    return _run_in_threads(connections, insert)


if __name__ == "__main__":
    raise SystemExit(main())
