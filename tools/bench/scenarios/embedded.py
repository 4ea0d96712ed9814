"""Scenario `embedded`: drain on SQLite, under `run_hub`."""

from __future__ import annotations

from dataclasses import asdict

from tools.bench import hub, machine
from tools.bench.context import Context
from tools.bench.endpoint import duplicates
from tools.bench.results import Result, Spread

TARGET = 500


def run(context: Context) -> Result:
    rates, cpu, repeated = [], [], 0
    count = context.sizes.embedded
    for _ in context.within(range(context.sizes.repeats)):
        with hub.supervised(context, context.embedded_database()) as loops:
            [pids] = loops.pids().values()
            before = machine.cpu_of(pids)
            rates.append(count / loops.deliver(count))
            cpu.append((machine.cpu_of(pids) - before) / count * 1e6)
            repeated += duplicates(context.endpoint.take())
    spread = Spread.of(rates)
    result = Result(
        "embedded", data={"rates": rates, "cpu": cpu, "spread": asdict(spread), "deliveries_per_run": count}
    )
    result.at_least("deliveries/s on SQLite", spread, spread.median, TARGET)
    result.add("µs of CPU per delivery", Spread.of(cpu))
    result.add("duplicates", repeated)
    result.failed = bool(repeated)
    return result
