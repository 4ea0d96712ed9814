"""Scenario `backlog`: whether the rate stays what it is when the tables are full of what is finished or waiting."""

from __future__ import annotations

import time

from tools.bench import drain, hub
from tools.bench.context import Context
from tools.bench.database import Server
from tools.bench.fill import calm, fill
from tools.bench.result import Result
from tools.bench.spread import Spread, ratios

TARGET = 0.9


def run(context: Context) -> Result:
    result = Result("backlog", data={"deliveries_per_run": context.sizes.backlog})
    databases = _filled(context, result)
    rates: dict[int, list[float]] = {sagas: [] for sagas in databases}
    # In turns, as everywhere: what disturbs the machine disturbs all alike.
    for _ in context.within(range(context.sizes.repeats)):
        for sagas, database in databases.items():
            with hub.running(context, database) as loops:
                rates[sagas].append(drain.measure(context, database, loops, context.sizes.backlog).rate)
    for sagas, found in rates.items():
        result.say(f"deliveries/s with {sagas:,} sagas", Spread.of(found))
    least, most = min(rates), max(rates)
    spread = ratios(rates[most], rates[least])
    name = f"rate with {most:,} ÷ rate with {least:,}"
    if most == max(context.sizes.backlogs):
        result.at_least(name, spread, spread.median, TARGET)
    else:
        result.say(name, spread)  # which says nothing of the one that was left out
    result.data |= {"rates": {str(sagas): found for sagas, found in rates.items()}, "ratio": spread.median}
    return result


def _filled(context: Context, result: Result) -> dict[int, Server]:
    """The databases, as many of them as can be filled in time; at least one."""
    databases: dict[int, Server] = {}
    seconds_each = 0.0
    for sagas in context.sizes.backlogs:
        if seconds_each * sagas > context.left / 2:
            result.say(f"deliveries/s with {sagas:,} sagas", "left out: filling would take too long")
            break
        database = databases[sagas] = context.database(f"backlog_{sagas}")
        began = time.monotonic()
        fill(database, sagas)
        seconds_each = (time.monotonic() - began) / sagas
        result.data[f"fill_seconds_{sagas}"] = seconds_each * sagas
    calm(database)
    return databases
