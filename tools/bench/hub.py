"""The hub's loops as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from tools.bench import load, machine
from tools.bench.context import ROOT, Context
from tools.bench.database import Database
from webhookhub.conf import KINDS
from webhookhub.runner.supervisor import die_with_parent

WARM_UP_DELIVERIES = 200
START_SECONDS = 180.0
STOP_SECONDS = 60.0


class Hub:
    def __init__(self, context: Context, database: Database, environment: Mapping[str, str]) -> None:
        self._context = context
        self._database = database
        self._environment = environment
        self._folder = context.folder / "logs"
        self._folder.mkdir(exist_ok=True)
        self._processes: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def start(self, kind: str, *command: str) -> None:
        """Starts `python …` as a process of the hub."""
        log = self._folder / f"{len(list(self._folder.iterdir()))}-{kind}.log"
        process = start_process([sys.executable, *command], self._environment, log)
        self._processes.append((kind, process, log))

    def check_alive(self) -> None:
        """Raises RuntimeError if a process has exited."""
        for kind, process, log in self._processes:
            if process.poll() is not None:
                raise RuntimeError(f"the {kind} exited with {process.returncode}:\n{log.read_text()[-3000:]}")

    def pids(self) -> dict[str, list[int]]:
        """Process ids by kind, including child processes."""
        pids: dict[str, list[int]] = defaultdict(list)
        for kind, process, _ in self._processes:
            pids[kind] += machine.process_tree(process.pid)
        return dict(pids)

    def warm_up(self, loops: int) -> None:
        """Waits until all loops run, and makes a few deliveries, so that their connections are open."""
        self.wait_for_loops(loops)
        self.deliver(WARM_UP_DELIVERIES, 4)
        self._context.endpoint.take()

    def wait_for_loops(self, count: int) -> None:
        load.wait_until(self._registered, count, self.check_alive, START_SECONDS)

    def log_bytes(self) -> int:
        return sum(log.stat().st_size for _, _, log in self._processes)

    def _registered(self) -> int:
        return int(self._database.execute("SELECT COUNT(*) FROM hub_processes")[0][0])

    def deliver(self, deliveries: int, width: int = 1) -> float:
        """Publishes events and waits until their deliveries have ended. Returns the seconds."""
        batch = load.insert(self._database, deliveries, width)
        try:
            return load.wait_for_end(self._database, self._context.endpoint, batch, self.check_alive)
        except load.Stalled as error:
            logs = "".join(f"\n-- {log.name}\n{log.read_text()[-2000:]}" for _, _, log in self._processes)
            raise load.Stalled(f"{error}{logs}") from None

    def stop(self) -> None:
        for _, process, _ in self._processes:
            if process.poll() is None:
                process.terminate()
        for _, process, _ in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def running(
    context: Context, database: Database, counts: Mapping[str, int] | None = None, **environment: str
) -> Iterator[Hub]:
    """All loops, one of each kind unless `counts` has another number, warmed up."""
    context.endpoint.take()
    hub = Hub(context, database, context.environment(database.url, **environment))
    try:
        loops = [(kind, number) for kind in KINDS for number in range((counts or {}).get(kind, 1))]
        for kind, number in loops:
            hub.start(kind, *_profiler(context.options.profile, f"{kind}-{number}"), "manage.py", f"run_{kind}")
        hub.warm_up(len(loops))
        yield hub
    finally:
        hub.stop()


@contextmanager
def supervised(context: Context, database: Database, *, warm: bool = True, **environment: str) -> Iterator[Hub]:
    """`run_hub`, warmed up; without `warm`, as soon as its loops run."""
    context.endpoint.take()
    hub = Hub(context, database, context.environment(database.url, **environment))
    try:
        hub.start("hub", "manage.py", "run_hub")
        if warm:
            hub.warm_up(len(KINDS))
        else:
            hub.wait_for_loops(len(KINDS))
        yield hub
    finally:
        hub.stop()


def is_ready(port: int) -> int:
    """Sends a request to the web server: the socket is open long before it responds."""
    connection = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return int(connection.getresponse().status == 200)
    except OSError:
        return 0
    finally:
        connection.close()


def start_process(
    command: list[str], environment: Mapping[str, str], log: Path, folder: Path = ROOT
) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches only the benchmark, which then stops it."""
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )


def _profiler(folder: Path | None, name: str) -> list[str]:
    if folder is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    return ["-m", "tools.bench.profiler", str(folder.resolve() / f"{name}.json")]
