"""Scenario `celery`: the same deliveries by Celery and Redis with their best settings, alternating with drain."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tools.bench import hub, load, machine
from tools.bench.context import ROOT, Context
from tools.bench.database import Server
from tools.bench.results import Result, Spread, ratios
from tools.bench.scenarios import drain
from tools.bench.scenarios.drain import DrainRun

TARGET = 5
TABLE = """CREATE TABLE IF NOT EXISTS celery_deliveries (id BIGINT AUTO_INCREMENT PRIMARY KEY,
    message_id VARCHAR(64) NOT NULL, status INT NOT NULL, snippet TEXT NOT NULL,
    at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"""
# A single worker needs none of these.
LEAN = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")


@dataclass(frozen=True)
class CeleryRun:
    setting: str
    rate: float
    cpu: float


def missing() -> str:
    """Names what is not installed; empty if nothing is missing."""
    names = [name for name in ("celery", "redis") if importlib.util.find_spec(name) is None]
    names += [] if shutil.which("redis-server") else ["redis-server"]
    return f"not installed: {', '.join(names)}" if names else ""


def run(context: Context, beside_drain: bool) -> Result:
    """Runs each setting once, then repeats the best one, alternating with drain if that was chosen, too."""
    reason = missing() or ("it needs a private server" if context.options.database_url else "")
    result = Result("celery", skipped=reason)
    if result.skipped:
        return result
    database = context.database()
    database.execute(TABLE)
    with _redis(context) as (broker, redis_pid):
        measure = partial(_measure, context, database, broker, redis_pid)
        # At most half of the time for the choice of settings.
        settings = {setting: measure(*setting) for setting in context.within(context.sizes.celery_settings, 0.5)}
        best = max(settings, key=lambda setting: settings[setting].rate)
        runs: list[CeleryRun] = []
        drains: list[DrainRun] = []
        for _ in context.within(range(context.sizes.repeats)):
            runs.append(measure(*best))
            if beside_drain:
                drains.append(drain.run(context, context.sizes.drain))
    database.execute("DROP TABLE celery_deliveries")
    for run in settings.values():
        result.add(f"deliveries/s, {run.setting}", Spread.of([run.rate]))
    result.add(f"deliveries/s, {runs[0].setting}, repeated", Spread.of([run.rate for run in runs]))
    result.add("µs of CPU per delivery, total, at best", Spread.of([run.cpu for run in runs]))
    result.data = {"settings": [asdict(run) for run in settings.values()], "runs": [asdict(run) for run in runs]}
    if drains:
        _compare(result, drains, runs)
    return result


def _compare(result: Result, drains: list[DrainRun], runs: list[CeleryRun]) -> None:
    rates = ratios([run.rate for run in drains], [run.rate for run in runs])
    result.at_least("drain ÷ celery, deliveries/s", rates, rates.median, TARGET)
    cpu = ratios([run.cpu for run in runs], [run.total_cpu for run in drains])
    result.add("celery ÷ drain, CPU per delivery", cpu)
    result.data |= {"drains": [asdict(run) for run in drains]}
    result.data |= {"drain_to_celery": asdict(rates), "celery_to_drain_cpu": asdict(cpu)}


def _measure(context: Context, database: Server, broker: str, redis_pid: int, pool: str, size: int) -> CeleryRun:
    """Measures from the first tenth, when the whole pool is running, to the last row."""
    count = context.sizes.celery
    database.execute("TRUNCATE TABLE celery_deliveries")
    context.endpoint.take()
    environment = context.environment(
        database.url, BENCH_BROKER=broker, BENCH_PORT=str(context.server.port), C_FORCE_ROOT="1"
    )
    enqueue = [sys.executable, "-m", "tools.bench.celery_app", str(count), *context.endpoint.urls]
    subprocess.run(enqueue, env=environment, cwd=ROOT, check=True)
    command = ["-m", "celery", "-A", "tools.bench.celery_app", "worker", "-P", pool, "-c", str(size), *LEAN]
    log = context.folder / "celery.log"
    with _running([sys.executable, *command], environment, log) as (pid, check_alive):
        load.wait_until(lambda: context.endpoint.counts().received, count // 10, check_alive)
        pids = [*machine.process_tree(pid), redis_pid, context.server.pid, context.endpoint.pid]
        first, cpu = context.endpoint.counts().received, machine.cpu_of(pids)
        load.wait_until(lambda: context.endpoint.counts().received, count, check_alive)
        rows = "SELECT COUNT(*) FROM celery_deliveries"
        load.wait_until(lambda: int(database.execute(rows)[0][0]), count, check_alive)
        cpu = machine.cpu_of(pids) - cpu
    skipped = count // 10
    [(started,)] = database.execute(f"SELECT at FROM celery_deliveries ORDER BY at LIMIT 1 OFFSET {skipped - 1}")
    [(ended,)] = database.execute("SELECT MAX(at) FROM celery_deliveries")
    rate = (count - skipped) / (ended - started).total_seconds()
    return CeleryRun(f"{pool} {size}", rate, cpu / (count - first) * 1e6)


@contextmanager
def _redis(context: Context) -> Iterator[tuple[str, int]]:
    """A private server on a socket, without persistence. Yields its URL and process id."""
    address = context.folder / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(address), "--save", "", "--appendonly", "no"]
    command += ["--dir", str(context.folder)]
    with _running(command, dict(os.environ), context.folder / "redis.log") as (pid, check_alive):
        load.wait_until(lambda: int(address.exists()), 1, check_alive)
        yield f"redis+socket://{address}", pid


@contextmanager
def _running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yields the process id, and a function that raises if the process has exited."""
    process = hub.start_process(command, environment, log)

    def check_alive() -> None:
        if process.poll() is not None:
            raise RuntimeError(f"{command} exited with {process.returncode}:\n{log.read_text()[-3000:]}")

    try:
        yield process.pid, check_alive
    finally:
        process.terminate()
        process.wait()
