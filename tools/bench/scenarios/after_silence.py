"""Scenario `after_silence`: the first event after a pause, beside a busy hub, through the HTTP API."""

from __future__ import annotations

import time

from tools.bench.context import Context
from tools.bench.installation import SINGLE, RunningHub
from tools.bench.results import Result, percentile
from tools.bench.turns import Run, measure, values

TARGET = 2.0
RATE = 50


def run(context: Context) -> Result:
    result, runs = measure(context, "after_silence", lambda hub: _measure(context, hub))
    for label, each in runs.items():
        ratio = max(values(each, "first event ÷ busy, p50"))
        suffix = f" ({label})" if len(runs) > 1 else ""
        result.at_most(f"first event ÷ busy, p50, slowest round{suffix}", f"{ratio:.2f}", ratio, TARGET)
    return result


def _measure(context: Context, hub: RunningHub) -> Run:
    sizes = context.sizes
    busy = hub.deliver(SINGLE, int(RATE * sizes.api_seconds), rate=RATE)
    faults, first = busy.faults, []
    for _ in context.within(range(sizes.silences)):
        time.sleep(sizes.silence_seconds)
        hub.check_alive()
        # At a rate, so that the producer opens its connection before the event is due.
        alone = hub.deliver(SINGLE, 1, rate=RATE)
        faults += alone.faults
        first += alone.latencies
    before, after = percentile(busy.latencies, 50) * 1000, percentile(first, 50) * 1000
    figures = {
        f"ms to the endpoint, p50, {RATE} events/s": before,
        f"ms of the first event after {sizes.silence_seconds:g} s of silence, p50": after,
        "first event ÷ busy, p50": after / before,
    }
    details = {"busy_ms": [value * 1000 for value in busy.latencies], "first_ms": [value * 1000 for value in first]}
    return Run(figures, details, faults)
