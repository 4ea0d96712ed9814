"""Scenario `endtoend`: the whole hub through the HTTP API, as producers use it, with the default settings of `run_hub`.

CPU is that of the hub's processes and of the database. The load and the endpoints are not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tools.bench import machine
from tools.bench.context import Context
from tools.bench.installation import FAN_OUT, SINGLE, Delivered, RunningHub
from tools.bench.results import Result, percentile, ratios
from tools.bench.scenarios import floor, floor_single
from tools.bench.statements import StatementCounter, Statements
from tools.bench.turns import Run, measure, values

TARGET = floor.TARGET
CLIENTS = 16
BATCH = 250
COUNTED_BATCH = 500
COUNTED_BATCHES = 4
PERCENTILES = (50, 95, 99)
# After the last arrival the hub still has to store the results; this is part of a delivery's cost.
SETTLE_SECONDS = 2.0
# Time for the statements of one event or batch, all that follow its delivery included.
WINDOW_SECONDS = 1.0
# The statements of the idle hub are counted for this time.
IDLE_SECONDS = 5.0
FLOOR = "floor"


def run(context: Context) -> Result:
    chosen = context.options.parts or NAMES
    floors: list[floor_single.SingleFloorRun] = []
    batch_floors: list[floor.FloorRun] = []

    def measure_floors() -> None:
        if FLOOR in chosen:
            floors.append(floor_single.run(context, context.sizes.single))
            batch_floors.append(floor.run(context, context.sizes.batches))

    def measure_parts(hub: RunningHub) -> Run:
        run = Run()
        for name, part in PARTS.items():
            if name in chosen:
                part(hub, run)
        return run

    result, runs = measure(context, "endtoend", measure_parts, measure_floors)
    if floors:
        floor_single.add_to(result, floors)
        for label, each in runs.items():
            suffix = f" ({label})" if len(runs) > 1 else ""
            _compare(result, suffix, each, "single posts", [floor.rate for floor in floors])
            _compare(
                result, suffix, each, f"batches of {BATCH}", [floor.rate_with_publishing for floor in batch_floors]
            )
    for label, each in runs.items():
        suffix = f" ({label})" if len(runs) > 1 else ""
        for name, text in each[-1].details.get("lines", {}).items():
            result.add(f"{name}{suffix}", text)
    return result


def _compare(result: Result, suffix: str, runs: list[Run], part: str, floors: list[float]) -> None:
    name = f"{part}: deliveries/s"
    if name in runs[0].figures:
        spread = ratios(values(runs, name), floors)
        result.at_least(f"{part} ÷ floor, deliveries/s{suffix}", spread, spread.median, TARGET)


class _Cost:
    """CPU and statements since its creation, until the hub has stored its results."""

    def __init__(self, hub: RunningHub) -> None:
        self._hub = hub
        context = hub.context
        self._own = [context.producer.pid, context.api_endpoint.pid]
        self._started = time.monotonic()
        self._statements = StatementCounter(hub.server)
        self._before = hub.cpu(), machine.cpu_of(self._own), machine.busy_seconds()

    def add_to(self, run: Run, part: str, unit: str, delivered: Delivered) -> None:
        time.sleep(SETTLE_SECONDS)
        self._hub.check_alive()
        kinds, own, busy = self._before
        now = self._hub.cpu()
        used = {kind: cpu - kinds.get(kind, 0.0) for kind, cpu in now.items()}
        load = machine.cpu_of(self._own) - own
        others = machine.busy_seconds() - busy - sum(used.values()) - load
        other_cores = max(0.0, others) / (time.monotonic() - self._started)
        per_delivery = 1e6 / delivered.received
        run.figures[f"{part}: µs of CPU per {unit}"] = sum(used.values()) * per_delivery
        run.figures[f"{part}: statements per {unit}"] = self._statements.count().total / delivered.received
        run.faults += delivered.faults
        run.details[part] = {
            "received": delivered.received,
            "expected": delivered.expected,
            "duplicates": delivered.duplicates,
            "cpu": {kind: cpu * per_delivery for kind, cpu in used.items()},
            "load_cpu": load * per_delivery,
            "other_cores": other_cores,
            "response_ms": _milliseconds(delivered.responses),
        }
        shares = ", ".join(f"{kind} {cpu * per_delivery:.0f}" for kind, cpu in used.items())
        shares += f"; not included: load and endpoints {load * per_delivery:.0f}, others {other_cores:.2g} cores"
        _line(run, f"{part}: µs of CPU by process", shares)


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(seconds, percent) * 1000 for percent in PERCENTILES}


def _line(run: Run, name: str, text: Any) -> None:
    run.details.setdefault("lines", {})[name] = str(text)


def idle(hub: RunningHub, run: Run) -> None:
    time.sleep(SETTLE_SECONDS)
    seconds = hub.context.sizes.idle_seconds
    before = sum(hub.cpu().values())
    time.sleep(seconds)
    hub.check_alive()
    run.figures["idle: % of a core, hub and database"] = (sum(hub.cpu().values()) - before) / seconds * 100


def statements(hub: RunningHub, run: Run) -> None:
    """Statements per delivery, without those that the idle hub sends in the same time."""
    time.sleep(SETTLE_SECONDS)
    counter, started = StatementCounter(hub.server), time.monotonic()
    time.sleep(IDLE_SECONDS)
    idle = counter.count() * (1 / (time.monotonic() - started))
    run.figures["idle: statements/s"] = idle.total
    completed, alone = _count_alone(hub, hub.context.sizes.alone, idle)
    batches = _count_batches(hub, idle)
    for name, counted in (
        ("one event alone until it is Completed", completed),
        (f"one event alone within {WINDOW_SECONDS:g} s", alone),
        (f"batches of {COUNTED_BATCH}", batches),
    ):
        run.figures[f"statements per delivery, {name}"] = counted.total
        _line(run, f"statements by kind, {name}", counted)
        run.details[f"statements, {name}"] = counted.kinds
    _line(run, "statements/s by kind, idle", idle)


def _count_alone(hub: RunningHub, events: int, idle: Statements) -> tuple[Statements, Statements]:
    """Per event: until its delivery is Completed, and with all that follow until the next event."""
    completed = alone = Statements(0, {})
    for _ in range(events):
        before, _ = hub.newest_delivery()
        counter, started = StatementCounter(hub.server), time.monotonic()
        hub.post(SINGLE, 1)
        polls = hub.wait_for_completed(before)
        own = Statements(polls, {"select": polls})
        completed += counter.count() - own - idle * (time.monotonic() - started)
        time.sleep(max(0.0, started + WINDOW_SECONDS - time.monotonic()))
        alone += counter.count() - own - idle * (time.monotonic() - started)
    return completed * (1 / events), alone * (1 / events)


def _count_batches(hub: RunningHub, idle: Statements) -> Statements:
    """Per delivery, of batches that do not overlap."""
    counter, started = StatementCounter(hub.server), time.monotonic()
    for number in range(COUNTED_BATCHES):
        hub.deliver(SINGLE, COUNTED_BATCH, size=COUNTED_BATCH, connections=1)
        time.sleep(max(0.0, started + (number + 1) * WINDOW_SECONDS - time.monotonic()))
    counted = counter.count() - idle * (time.monotonic() - started)
    return counted * (1 / (COUNTED_BATCHES * COUNTED_BATCH))


def single(hub: RunningHub, run: Run) -> None:
    _drain(hub, run, "single posts", SINGLE, hub.context.sizes.single)


def batches(hub: RunningHub, run: Run) -> None:
    _drain(hub, run, f"batches of {BATCH}", SINGLE, hub.context.sizes.batches, BATCH)


def fan_out(hub: RunningHub, run: Run) -> None:
    width = len(hub.context.api_endpoint.urls) - 1
    _drain(hub, run, f"fan-out × {width}", FAN_OUT, hub.context.sizes.fan_out)


def _drain(hub: RunningHub, run: Run, part: str, event_type: str, count: int, size: int = 1) -> None:
    cost = _Cost(hub)
    delivered = hub.deliver(event_type, count, size=size, connections=CLIENTS)
    run.figures[f"{part}: deliveries/s"] = delivered.rate
    cost.add_to(run, part, "delivery", delivered)


def trickle(hub: RunningHub, run: Run) -> None:
    sizes = hub.context.sizes
    for rate in sizes.api_rates:
        part = f"{rate} events/s"
        cost = _Cost(hub)
        delivered = hub.deliver(SINGLE, int(rate * sizes.api_seconds), rate=rate)
        for name, value in _milliseconds(delivered.latencies).items():
            run.figures[f"{part}: ms to the endpoint, {name}"] = value
        cost.add_to(run, part, "event", delivered)


def memory(hub: RunningHub, run: Run) -> None:
    run.figures["MB of the hub's processes"] = hub.memory_mb()


PARTS: dict[str, Callable[[RunningHub, Run], None]] = {
    "idle": idle,
    "statements": statements,
    "single": single,
    "batches": batches,
    "trickle": trickle,
    "fan_out": fan_out,
    "memory": memory,
}
NAMES = (*PARTS, FLOOR)
