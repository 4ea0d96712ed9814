"""What an installation needs: bytes per row, connections and memory of each process, for docs/sizing.md.

DATABASE_URL names a scratch database on a server, which is created and dropped at the end.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.bench.machine import tree_memory_mb
from tools.bench.scratch_database import execute, scratch_database
from tools.bench.seed_bulk import Sizes, seed
from tools.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("events", "webhook_delivery_sagas", "webhook_delivery_jobs", "dead_letters")
START_SECONDS = 120.0
# All connections are open, and memory no longer grows, after a few polls.
SETTLE_SECONDS = 5.0
# The web server opens connections when it is used.
REQUESTS = 64


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.sizing", description=__doc__)
    parser.add_argument("--events", type=int, default=300_000, help="number of stored events")
    options = parser.parse_args()
    with scratch_database():
        seed(Sizes.mixed(options.events))
        print_tables(options.events)
        print_processes()
    return 0


def print_tables(events: int) -> None:
    print(f"{'table':<26}{'rows per event':>15}{'data':>8}{'indexes':>9}{'MB per million events':>23}")
    total = 0.0
    for table in TABLES:
        rows, data, indexes = _size(table)
        size = (data + indexes) / events
        total += size
        print(f"{table:<26}{rows / events:>15.2f}{data / rows:>8.0f}{indexes / rows:>9.0f}{size:>23.0f}")
    print(f"{'all':<26}{total:>55.0f}", flush=True)


def _size(table: str) -> tuple[int, int, int]:
    """Rows, bytes of data, and bytes of indexes."""
    from django.db import connection

    execute(f"ANALYZE TABLE {table}")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {table}")
        [rows] = cursor.fetchone()
        cursor.execute(
            "SELECT data_length, index_length FROM information_schema.tables "
            "WHERE table_schema = DATABASE() AND table_name = %s",
            [table],
        )
        data, indexes = cursor.fetchone()
    return rows, data, indexes


def print_processes() -> None:
    web = f"127.0.0.1:{free_port()}"
    print(f"\n{'process':<40}{'connections':>12}{'MB':>6}")
    for name, command in (
        ("run_router", ["run_router"]),
        ("run_orchestrator", ["run_orchestrator"]),
        ("run_worker", ["run_worker"]),
        ("run_cleaner", ["run_cleaner"]),
        ("run_workflows", ["run_workflows"]),
        ("run_hub", ["run_hub"]),
        ("run_hub --workers 3", ["run_hub", "--workers", "3"]),
        ("run_web, idle", ["run_web", web]),
        (f"run_web, after {REQUESTS} requests at once", ["run_web", web]),
    ):
        before = _connections()
        with _running(command) as process:
            if command[0] == "run_web":
                _wait_until_served(web)
            else:
                _wait_until_connected(before)
            if "requests" in name:
                _request(web)
            time.sleep(SETTLE_SECONDS)
            print(f"{name:<40}{_connections() - before:>12}{tree_memory_mb(process.pid):>6.0f}", flush=True)


def _connections() -> int:
    """Of the hub to its database, without this one."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()")
        return int(cursor.fetchone()[0]) - 1


@contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "WEBHOOKHUB_LOG_LEVEL": "ERROR"}
    process = subprocess.Popen([sys.executable, str(ROOT / "manage.py"), *command], env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait_until_connected(before: int) -> None:
    _wait_until(lambda: _connections() > before)


def _wait_until_served(address: str) -> None:
    def is_served() -> bool:
        with suppress(OSError):
            socket.create_connection((address.partition(":")[0], int(address.partition(":")[2]))).close()
            return True
        return False

    _wait_until(is_served)


def _wait_until(has_started: Callable[[], bool]) -> None:
    until = time.monotonic() + START_SECONDS
    while not has_started():
        if time.monotonic() > until:
            raise SystemExit("the process has not started")
        time.sleep(0.1)


def _request(address: str) -> None:
    """Some of the API and some of the console, more at once than the web server has threads."""
    command = ["curl", "--silent", "--no-progress-meter", "--parallel", "--parallel-max", str(REQUESTS)]
    command += ["--output", os.devnull, "--header", "Authorization: Bearer whk_0123456789ab_unknown"]
    for path in ("api/v1/events", "admin/login/", "api/v1/deliveries"):
        subprocess.run([*command, f"http://{address}/{path}?[1-{REQUESTS}]"], check=False)


if __name__ == "__main__":
    raise SystemExit(main())
