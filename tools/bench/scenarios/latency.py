"""Scenario `latency`: from publishing to the endpoint at fixed rates, with the default settings of all loops."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from tools.bench import hub, load
from tools.bench.context import ROOT, Context
from tools.bench.database import Server
from tools.bench.machine import CpuUsage
from tools.bench.results import Result, percentile
from tools.support.ports import free_port

# The target rate, and its latencies in seconds.
RATE, P50, P95 = 200, 0.04, 0.10
PERCENTILES = (50, 95, 99)
IN_PROCESS, API = "publish()", "HTTP API"
NO_LOOPS = ("--routers", "0", "--orchestrators", "0", "--workers", "0", "--cleaners", "0")


@dataclass(frozen=True)
class LatencyRun:
    """Percentiles in seconds since the time at which the event was due: until received, and until published."""

    way: str
    rate: int
    events: int
    received: dict[str, float]
    published: dict[str, float]
    # µs per event, by kind of process.
    cpu: dict[str, float]


def run(context: Context) -> Result:
    database = context.database()
    database.empty()
    result = Result("latency")
    with hub.running(context, database) as loops, _api(context, database, loops) as port_and_key:
        ways: dict[str, list[str]] = {IN_PROCESS: [], API: port_and_key}
        measurements = [(rate, way) for rate in context.sizes.rates for way in ways]
        runs = [_measure(context, database, loops, way, rate, ways[way]) for rate, way in context.within(measurements)]
    for run in runs:
        result.add(f"s to the endpoint by {run.way}, {run.rate} events/s", _as_text(run.received))
    for run in runs:
        result.add(f"s of {run.way} itself, {run.rate} events/s", _as_text(run.published))
    for run in runs:
        shares = ", ".join(f"{kind} {value:.0f}" for kind, value in run.cpu.items())
        result.add(f"µs of CPU per event by {run.way}, {run.rate} events/s", shares)
    for run in runs:
        if (run.rate, run.way) == (RATE, IN_PROCESS):
            for name, target in (("p50", P50), ("p95", P95)):
                value = run.received[name]
                result.at_most(f"s to the endpoint, {name}, {RATE} events/s", f"{value:.3f}", value, target)
    result.data = {"runs": [asdict(run) for run in runs]}
    return result


@contextmanager
def _api(context: Context, database: Server, loops: hub.Hub) -> Iterator[list[str]]:
    """The web server as `run_hub --web` starts it. Yields its port and an API key."""
    port = free_port()
    database.execute("DELETE FROM api_keys WHERE name = 'bench'")
    created = context.call("manage.py", "api_key", "create", "bench", "--scope", "events:write", url=database.url)
    assert created.returncode == 0, created.stderr
    loops.start("web", "manage.py", "run_hub", *NO_LOOPS, "--web", f"127.0.0.1:{port}")
    load.wait_until(lambda: hub.is_ready(port), 1, loops.check_alive, hub.START_SECONDS)
    yield [str(port), created.stdout.strip()]


def _measure(
    context: Context, database: Server, loops: hub.Hub, way: str, rate: int, port_and_key: list[str]
) -> LatencyRun:
    context.endpoint.take()
    arguments = [str(rate), str(context.sizes.latency_seconds), *(["--api", *port_and_key] if port_and_key else [])]
    command = [sys.executable, "-m", "tools.bench.publisher", *arguments]
    environment = context.environment(database.url)
    usage = CpuUsage(loops.pids() | {"database": [context.server.pid]})
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    published = json.loads(done.stdout)
    load.wait_until(lambda: context.endpoint.counts().received, len(published), loops.check_alive)
    cpu = {kind: used / len(published) * 1e6 for kind, used in usage.used().items()}
    # Reversed, so that the first arrival of an event counts.
    received = {arrival.message_id: arrival.at for arrival in reversed(context.endpoint.take())}
    until_received = [received[uid] - due for uid, due, _ in published]
    until_published = [stored - due for _, due, stored in published]
    return LatencyRun(way, rate, len(published), _percentiles(until_received), _percentiles(until_published), cpu)


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}


def _as_text(percentiles: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in percentiles.items())
