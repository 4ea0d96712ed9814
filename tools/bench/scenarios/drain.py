"""Scenario `drain`: delivers events that are already published, with each loop as a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tools.bench import hub
from tools.bench.context import Context
from tools.bench.endpoint import duplicates
from tools.bench.machine import CpuUsage
from tools.bench.results import Result, Spread


@dataclass(frozen=True)
class DrainRun:
    """Deliveries per second, and microseconds of CPU per delivery by kind of process."""

    rate: float
    cpu: dict[str, float]
    duplicates: int

    @property
    def total_cpu(self) -> float:
        return sum(self.cpu.values())


def run(
    context: Context,
    deliveries: int,
    *,
    width: int = 1,
    counts: Mapping[str, int] | None = None,
    **environment: str,
) -> DrainRun:
    """Measures with an empty database and new processes."""
    database = context.database()
    database.empty()
    with hub.running(context, database, counts, **environment) as loops:
        return measure(context, loops, deliveries, width)


def measure(context: Context, loops: hub.Hub, deliveries: int, width: int = 1) -> DrainRun:
    usage = CpuUsage(loops.pids() | {"database": [context.server.pid], "endpoint": [context.endpoint.pid]})
    seconds = loops.deliver(deliveries, width)
    cpu = {kind: used / deliveries * 1e6 for kind, used in usage.used().items()}
    arrivals = context.endpoint.take()
    assert len(arrivals) >= deliveries, f"{len(arrivals)} of {deliveries} deliveries arrived"
    return DrainRun(deliveries / seconds, cpu, duplicates(arrivals))


def result(context: Context, runs: list[DrainRun]) -> Result:
    result = Result("drain", data={"runs": [asdict(run) for run in runs], "deliveries_per_run": context.sizes.drain})
    result.add("deliveries/s", Spread.of([run.rate for run in runs]))
    for kind in runs[0].cpu:
        result.add(f"µs of CPU per delivery, {kind}", Spread.of([run.cpu[kind] for run in runs]))
    result.add("µs of CPU per delivery, total", Spread.of([run.total_cpu for run in runs]))
    result.add("duplicates", sum(run.duplicates for run in runs))
    result.failed = any(run.duplicates for run in runs)
    if context.sizes.variants:
        _add_variants(context, result)
    return result


def _add_variants(context: Context, result: Result) -> None:
    """One run with the default log level, and one with several subscriptions per event."""
    verbose = run(context, context.sizes.drain, WEBHOOKHUB_LOG_LEVEL="INFO")
    result.add("deliveries/s, log at INFO", Spread.of([verbose.rate]))
    result.add("µs of CPU per delivery, total, log at INFO", Spread.of([verbose.total_cpu]))
    wide = run(context, context.sizes.drain, width=4)
    result.add("deliveries/s, 4 subscriptions per event", Spread.of([wide.rate]))
    result.add("µs of CPU per delivery, total, 4 subscriptions", Spread.of([wide.total_cpu]))
    result.data |= {"log_at_info": asdict(verbose), "four_subscriptions": asdict(wide)}
