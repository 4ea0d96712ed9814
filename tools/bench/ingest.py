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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tools.bench.scratch import scratch_database

ROOT = Path(__file__).resolve().parents[2]
PAYLOAD = {"order": 123456, "customer": "c-1", "lines": [{"sku": "A", "n": 2}] * 10}
BARE = "bare INSERT"
# events sent at once: connections that do so
SIZES = {"1": 16, "1000": 4}
SERVERS = {
    "gunicorn": ["gunicorn", "webhookhub.wsgi", "--worker-class", "gthread", "--log-level", "warning"],
    "granian": ["granian", "webhookhub.wsgi:application", "--interface", "wsgi", "--no-access-log"],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.ingest", description=__doc__)
    parser.add_argument(
        "--server",
        choices=SERVERS,
        nargs="+",
        default=["gunicorn"],
        help="one or more, in the same run; granian must be installed for it",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    options = parser.parse_args()
    os.environ["WEBHOOKHUB_LOG_LEVEL"] = "WARNING"
    os.environ["WEBHOOKHUB_API_EVENTS_PER_SECOND"] = "100000"
    with scratch_database(), ExitStack() as running:
        key = _key()
        rates: dict[tuple[str, str], list[float]] = defaultdict(list)
        measures: dict[tuple[str, str], Callable[[], tuple[float, int]]] = {}
        for size, connections in SIZES.items():
            measures[BARE, size] = partial(_bare, int(size), connections, options.seconds)
        pids: dict[str, int] = {}
        cpu: dict[tuple[str, str], list[float]] = defaultdict(list)
        for name in options.server:
            port, pids[name] = running.enter_context(_server(name, options.workers, options.threads))
            for size, connections in SIZES.items():
                measures[name, size] = partial(_through_api, port, key, int(size), connections, options.seconds)
        for number in range(options.rounds + 1):
            for what, measure in measures.items():
                before = _cpu_seconds(pids.get(what[0]))
                rate, stored = measure()
                if number:  # the first round makes connections and fills caches
                    rates[what].append(rate)
                    cpu[what].append((_cpu_seconds(pids.get(what[0])) - before) / stored * 1e6)
    _print(rates, cpu, f"{options.workers} processes with {options.threads} threads each")
    return 0


Figures = Mapping[tuple[str, str], Sequence[float]]


def _print(rates: Figures, cpu: Figures, how: str) -> None:
    print(f"Web servers: {how}. Events a second, the median of {len(next(iter(rates.values())))} rounds:")
    print(f"{'':<14}{'at once':>8}{'events/s':>10}   spread            of bare INSERT   µs of its CPU an event")
    for (name, size), found in sorted(rates.items(), key=lambda item: (int(item[0][1]), item[0][0] != BARE)):
        # Round by round, each against its neighbour: what disturbs the machine lasts longer than a round.
        share = statistics.median(ours / bare for ours, bare in zip(found, rates[BARE, size], strict=True))
        spread = f"{min(found):.0f} to {max(found):.0f}"
        # Of the web server's processes: it says more than a rate on a machine that has other things to do.
        used = "" if name == BARE else f"{statistics.median(cpu[name, size]):.0f}"
        print(f"{name:<14}{size:>8}{statistics.median(found):>10.0f}   {spread:<18}{share:<17.2f}{used}")


def _key() -> str:
    from api import keys
    from api.scopes import EVENTS_WRITE

    return keys.create("bench", (EVENTS_WRITE,), by="bench", source="bench")[1]


@contextmanager
def _server(name: str, workers: int, threads: int) -> Iterator[tuple[int, int]]:
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
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _cpu_seconds(pid: int | None) -> float:
    """What a process and its children have used so far."""
    if pid is None:
        return 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = 0
    for each in (str(pid), *children):
        user, system = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:13]
        ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


def _event() -> dict[str, Any]:
    return {"event_type": "order.created", "payload": PAYLOAD, "external_id": uuid.uuid4().hex}


def _together(connections: int, work: Callable[[], int]) -> tuple[float, int]:
    """The rate of `work`, which returns how many events it has stored, on so many threads; and how many in all."""
    started = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        stored = sum(each.result() for each in [pool.submit(work) for _ in range(connections)])
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


def _bare(size: int, connections: int, seconds: float) -> tuple[float, int]:
    """The least that stores the same: one statement, one commit, no look at what was there."""
    from django.db import connection as model

    from webhookhub.ids import new_uid

    payload = json.dumps(PAYLOAD, separators=(",", ":"))
    columns = "(uid, event_type, source, external_id, correlation_id, payload)"
    sql = f"INSERT INTO events {columns} VALUES " + ", ".join(["(%s, %s, %s, %s, %s, %s)"] * size)

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
