"""Scenario `celery`: Celery and Redis in their best setting on this machine, beside the hub's drain in the same run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tools.bench import drain, load, usage
from tools.bench.context import ROOT, Context
from tools.bench.database import Server
from tools.bench.drain import DrainRun
from tools.bench.result import Result
from tools.bench.spread import Spread, ratios
from webhookhub.runner.supervisor import die_with_parent

TARGET = 5
TABLE = """CREATE TABLE IF NOT EXISTS celery_deliveries (id BIGINT AUTO_INCREMENT PRIMARY KEY,
    message_id VARCHAR(64) NOT NULL, status INT NOT NULL, snippet TEXT NOT NULL,
    at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))"""
# Nothing that a single worker could do without.
LEAN = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")


@dataclass(frozen=True)
class CeleryRun:
    setting: str
    rate: float
    cpu: float


def missing() -> str:
    """What is not installed here; empty if all is."""
    names = [name for name in ("celery", "redis") if importlib.util.find_spec(name) is None]
    names += [] if shutil.which("redis-server") else ["redis-server"]
    return f"not installed: {', '.join(names)}" if names else ""


def run(context: Context, beside_drain: bool) -> Result:
    """Each setting once, the best of them again, in turns with the hub's drain if that was asked for, too."""
    result = Result("celery", skipped=missing())
    if result.skipped:
        return result
    database = context.database()
    database.execute(TABLE)
    with _redis(context) as (broker, redis_pid):
        measure = partial(_measure, context, database, broker, redis_pid)
        # A half of the time at most for finding the best.
        settings = {setting: measure(*setting) for setting in context.within(context.sizes.celery_settings, 0.5)}
        best = max(settings, key=lambda setting: settings[setting].rate)
        again: list[CeleryRun] = []
        drains: list[DrainRun] = []
        for _ in context.within(range(context.sizes.repeats)):
            again.append(measure(*best))
            if beside_drain:
                drains.append(drain.run(context, context.sizes.drain))
    database.execute("DROP TABLE celery_deliveries")
    for each in settings.values():
        result.say(f"deliveries/s, {each.setting}", Spread.of([each.rate]))
    result.say(f"deliveries/s, {again[0].setting}, again", Spread.of([each.rate for each in again]))
    result.say("µs of CPU per delivery, all, at best", Spread.of([each.cpu for each in again]))
    result.data = {"settings": [asdict(each) for each in settings.values()], "runs": [asdict(each) for each in again]}
    if drains:
        _compare(result, drains, again)
    return result


def _compare(result: Result, drains: list[DrainRun], runs: list[CeleryRun]) -> None:
    rates = ratios([each.rate for each in drains], [each.rate for each in runs])
    result.at_least("drain ÷ celery, deliveries/s", rates, rates.median, TARGET)
    cpu = ratios([each.cpu for each in runs], [sum(each.cpu.values()) for each in drains])
    result.say("celery ÷ drain, CPU per delivery", cpu)
    result.data |= {"drains": [asdict(each) for each in drains]}
    result.data |= {"drain_to_celery": asdict(rates), "celery_to_drain_cpu": asdict(cpu)}


def _measure(context: Context, database: Server, broker: str, redis_pid: int, pool: str, size: int) -> CeleryRun:
    """From the time a tenth is done, when all of the pool is there, to the last row."""
    count = context.sizes.celery
    database.execute("TRUNCATE TABLE celery_deliveries")
    context.echo.take()
    environment = context.environment(
        database.url, BENCH_BROKER=broker, BENCH_PORT=str(context.server.port), C_FORCE_ROOT="1"
    )
    filled = [sys.executable, "-m", "tools.bench.celery_app", str(count), *context.echo.urls]
    subprocess.run(filled, env=environment, cwd=ROOT, check=True)
    command = ["-m", "celery", "-A", "tools.bench.celery_app", "worker", "-P", pool, "-c", str(size), *LEAN]
    log = context.folder / "celery.log"
    with _started([sys.executable, *command], environment, log) as process:

        def alive() -> None:
            if process.poll() is not None:
                raise RuntimeError(f"celery ended with {process.returncode}:\n{log.read_text()[-3000:]}")

        load.until(lambda: context.echo.gauge().answered, count // 10, alive)
        pids = [*usage.family(process.pid), redis_pid, context.server.pid, context.echo.pid]
        first, cpu = context.echo.gauge().answered, usage.cpu_of(pids)
        load.until(lambda: context.echo.gauge().answered, count, alive)
        load.until(lambda: int(database.execute("SELECT COUNT(*) FROM celery_deliveries")[0][0]), count, alive)
        cpu = usage.cpu_of(pids) - cpu
    skipped = count // 10
    [(begun,)] = database.execute(f"SELECT at FROM celery_deliveries ORDER BY at LIMIT 1 OFFSET {skipped - 1}")
    [(ended,)] = database.execute("SELECT MAX(at) FROM celery_deliveries")
    rate = (count - skipped) / (ended - begun).total_seconds()
    return CeleryRun(f"{pool} {size}", rate, cpu / (count - first) * 1e6)


@contextmanager
def _redis(context: Context) -> Iterator[tuple[str, int]]:
    """A private server on a socket, which keeps nothing on the disk: quicker than a queue that must not be lost."""
    address = context.folder / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(address), "--save", "", "--appendonly", "no"]
    with _started([*command, "--dir", str(context.folder)], dict(os.environ), context.folder / "redis.log") as process:

        def alive() -> None:
            if process.poll() is not None:
                raise RuntimeError(f"redis-server ended with {process.returncode}")

        load.until(lambda: int(address.exists()), 1, alive)
        yield f"redis+socket://{address}", process.pid


@contextmanager
def _started(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
