"""Scenario `embedded`: drain on the embedded database, under `run_hub` as a newcomer starts it."""

from __future__ import annotations

from dataclasses import asdict

from tools.bench import hub, usage
from tools.bench.context import Context
from tools.bench.load import duplicates
from tools.bench.result import Result
from tools.bench.spread import Spread

TARGET = 500


def run(context: Context) -> Result:
    rates, cpu, twice = [], [], 0
    count = context.sizes.embedded
    for _ in context.within(range(context.sizes.repeats)):
        with hub.supervised(context, context.embedded_database()) as loops:
            [pids] = loops.pids().values()
            before = usage.cpu_of(pids)
            rates.append(count / loops.deliver(count))
            cpu.append((usage.cpu_of(pids) - before) / count * 1e6)
            twice += duplicates(context.echo.take())
    spread = Spread.of(rates)
    result = Result(
        "embedded", data={"rates": rates, "cpu": cpu, "spread": asdict(spread), "deliveries_per_run": count}
    )
    result.at_least("deliveries/s on SQLite", spread, spread.median, TARGET)
    result.say("µs of CPU per delivery", Spread.of(cpu))
    result.say("received twice", twice)
    result.wrong = bool(twice)
    return result
