"""The hub's loops as real processes, and what each kind of them uses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tools.bench import load, usage
from tools.bench.context import ROOT, Context
from tools.bench.database import Database
from webhookhub.conf import KINDS
from webhookhub.runner.supervisor import die_with_parent

WARM_UP = 200
START_SECONDS = 180.0
STOP_SECONDS = 60.0


class Hub:
    def __init__(self, context: Context, database: Database, environment: Mapping[str, str]) -> None:
        self._ground = context
        self._database = database
        self._environment = environment
        self._folder = context.folder / "logs"
        self._folder.mkdir(exist_ok=True)
        self._processes: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def start(self, kind: str, *command: str) -> None:
        """`python …` as a process of the hub, in a session of its own: Ctrl-C is the harness's affair."""
        log = self._folder / f"{len(list(self._folder.iterdir()))}-{kind}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, *command],
                env=dict(self._environment),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        self._processes.append((kind, process, log))

    def alive(self) -> None:
        for kind, process, log in self._processes:
            if process.poll() is not None:
                raise RuntimeError(f"the {kind} ended with {process.returncode}:\n{log.read_text()[-3000:]}")

    def pids(self) -> dict[str, list[int]]:
        """By kind; of a supervisor, its children too."""
        found: dict[str, list[int]] = defaultdict(list)
        for kind, process, _ in self._processes:
            found[kind] += usage.family(process.pid)
        return dict(found)

    def warm_up(self, loops: int) -> None:
        """Wait until all loops are there, and have them make a few deliveries, after which connections are open."""
        load.until(self._registered, loops, self.alive, START_SECONDS)
        self.deliver(WARM_UP, 4)
        self._ground.echo.take()

    def _registered(self) -> int:
        return int(self._database.execute("SELECT COUNT(*) FROM hub_processes")[0][0])

    def deliver(self, deliveries: int, width: int = 1) -> float:
        batch = load.insert(self._database, deliveries, width)
        try:
            return load.wait(self._database, self._ground.echo, batch, self.alive)
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
    """All loops, one of each kind unless `counts` says otherwise, warmed up; stopped at the end."""
    context.echo.take()
    hub = Hub(context, database, context.environment(database.url, **environment))
    try:
        names = [(kind, number) for kind in KINDS for number in range((counts or {}).get(kind, 1))]
        for kind, number in names:
            hub.start(kind, *_profiled(context.options.profile, f"{kind}-{number}"), "manage.py", f"run_{kind}")
        hub.warm_up(len(names))
        yield hub
    finally:
        hub.stop()


@contextmanager
def supervised(context: Context, database: Database, **environment: str) -> Iterator[Hub]:
    """`run_hub`, warmed up; stopped at the end."""
    context.echo.take()
    hub = Hub(context, database, context.environment(database.url, **environment))
    try:
        hub.start("hub", "manage.py", "run_hub")
        hub.warm_up(len(KINDS))
        yield hub
    finally:
        hub.stop()


def _profiled(folder: Path | None, name: str) -> list[str]:
    if folder is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    return ["-m", "tools.bench.sampled", str(folder.resolve() / f"{name}.json")]
