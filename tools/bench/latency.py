"""Scenario `latency`: from publishing to the receiver, at rates fixed beforehand, all loops with default settings."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection

from tools.bench import hub, load, usage
from tools.bench.context import ROOT, Context
from tools.bench.database import Server
from tools.bench.result import Result
from tools.bench.spread import percentile

# What should be reached, at which rate.
RATE, P50, P95 = 200, 0.04, 0.10
PARTS = (50, 95, 99)
IN_PROCESS, API = "publish()", "HTTP API"
NO_LOOPS = ("--routers", "0", "--orchestrators", "0", "--workers", "0", "--cleaners", "0")


@dataclass(frozen=True)
class LatencyRun:
    """Seconds by percentile: until received, and of publishing alone, both from the moment it was to begin."""

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
    with hub.running(context, database) as loops, _api(context, database, loops) as address:
        ways: dict[str, list[str]] = {IN_PROCESS: [], API: address}
        both = [(rate, way) for rate in context.sizes.rates for way in ways]
        runs = [_measure(context, database, loops, way, rate, ways[way]) for rate, way in context.within(both)]
    for each in runs:
        result.say(f"s to the receiver by {each.way}, {each.rate} events/s", _shown(each.received))
    for each in runs:
        result.say(f"s of {each.way} itself, {each.rate} events/s", _shown(each.published))
    for each in runs:
        shares = ", ".join(f"{kind} {value:.0f}" for kind, value in each.cpu.items())
        result.say(f"µs of CPU per event by {each.way}, {each.rate} events/s", shares)
    for each in runs:
        if (each.rate, each.way) == (RATE, IN_PROCESS):
            for part, target in (("p50", P50), ("p95", P95)):
                value = each.received[part]
                result.at_most(f"s to the receiver, {part}, {RATE} events/s", f"{value:.3f}", value, target)
    result.data = {"runs": [asdict(each) for each in runs]}
    return result


@contextmanager
def _api(context: Context, database: Server, loops: hub.Hub) -> Iterator[list[str]]:
    """The web server as `run_hub --web` starts it; yields its port and a key."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    database.execute("DELETE FROM api_keys WHERE name = 'bench'")
    made = context.call("manage.py", "api_key", "create", "bench", "--scope", "events:write", url=database.url)
    assert made.returncode == 0, made.stderr
    loops.start("web", "manage.py", "run_hub", *NO_LOOPS, "--web", f"127.0.0.1:{port}")
    load.until(lambda: _answers(port), 1, loops.alive, hub.START_SECONDS)
    yield [str(port), made.stdout.strip()]


def _answers(port: int) -> int:
    """A look at the socket is not enough: it is open long before anybody serves it."""
    connection = HTTPConnection("127.0.0.1", port, timeout=hub.START_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return int(connection.getresponse().status == 200)
    except OSError:
        return 0
    finally:
        connection.close()


def _measure(context: Context, database: Server, loops: hub.Hub, way: str, rate: int, address: list[str]) -> LatencyRun:
    context.echo.take()
    command = [sys.executable, "-m", "tools.bench.publisher", str(rate), str(context.sizes.latency_seconds), *address]
    environment = context.environment(database.url)
    kinds = loops.pids() | {"database": [context.server.pid]}
    before = {kind: usage.cpu_of(pids) for kind, pids in kinds.items()}
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    published = json.loads(done.stdout)
    load.until(lambda: context.echo.gauge().answered, len(published), loops.alive)
    cpu = {kind: (usage.cpu_of(pids) - before[kind]) / len(published) * 1e6 for kind, pids in kinds.items()}
    received = {arrival.message_id: arrival.at for arrival in reversed(context.echo.take())}  # the first receipt counts
    waits = [received[uid] - moment for uid, moment, _ in published]
    own = [stored - moment for _, moment, stored in published]
    return LatencyRun(way, rate, len(published), _percentiles(waits), _percentiles(own), cpu)


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{part}": percentile(values, part) for part in PARTS}


def _shown(percentiles: dict[str, float]) -> str:
    return ", ".join(f"{part} {value:.3f}" for part, value in percentiles.items())
