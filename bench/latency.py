"""Scenario `latency`: from publish() to the receiver, at rates fixed beforehand, all loops with default settings."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

from bench import hub, load
from bench.database import Server
from bench.ground import ROOT, Ground
from bench.measures import percentile
from bench.result import Result

# What should be reached, at which rate.
RATE, P50, P95 = 200, 0.04, 0.10
PARTS = (50, 95, 99)


@dataclass(frozen=True)
class LatencyRun:
    """Seconds by percentile: until received, and of publish() alone, both from the moment it was to be called."""

    rate: int
    events: int
    received: dict[str, float]
    published: dict[str, float]


def run(ground: Ground) -> Result:
    database = ground.database()
    database.empty()
    result = Result("latency")
    with hub.running(ground, database) as loops:
        runs = [_measure(ground, database, loops, rate) for rate in ground.within(ground.sizes.rates)]
    for each in runs:
        figures = ", ".join(f"{part} {value:.3f}" for part, value in each.received.items())
        result.say(f"s from publish to receipt, {each.rate} events/s", figures)
    for each in runs:
        figures = ", ".join(f"{part} {value:.3f}" for part, value in each.published.items())
        result.say(f"s of publish() itself, {each.rate} events/s", figures)
    for each in runs:
        if each.rate == RATE:
            for part, target in (("p50", P50), ("p95", P95)):
                value = each.received[part]
                result.at_most(f"s from publish to receipt, {part}, {RATE} events/s", f"{value:.3f}", value, target)
    result.data = {"runs": [asdict(each) for each in runs]}
    return result


def _measure(ground: Ground, database: Server, loops: hub.Hub, rate: int) -> LatencyRun:
    ground.echo.take()
    command = [sys.executable, "-m", "bench.publisher", str(rate), str(ground.sizes.latency_seconds)]
    done = subprocess.run(
        command, env=ground.environment(database.url), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    published = json.loads(done.stdout)
    load.until(lambda: ground.echo.gauge().answered, len(published), loops.alive)
    received = {arrival.message_id: arrival.at for arrival in reversed(ground.echo.take())}  # the first receipt counts
    waits = [received[uid] - moment for uid, moment, _ in published]
    own = [stored - moment for _, moment, stored in published]
    return LatencyRun(rate, len(published), _percentiles(waits), _percentiles(own))


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{part}": percentile(values, part) for part in PARTS}
