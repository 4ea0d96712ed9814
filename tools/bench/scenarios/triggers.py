"""Scenario `triggers`: drain with the triggers of the state machine and without them, in turns."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict

from tools.bench import hub
from tools.bench.context import Context
from tools.bench.results import Result, Spread, ratios
from tools.bench.scenarios import drain
from tools.bench.turns import order
from tools.support import guards

# The state machine in the database may cost this share of a drain.
TARGET = 0.05


def run(context: Context) -> Result:
    runs: dict[bool, list[drain.DrainRun]] = {True: [], False: []}
    for number in context.within(range(context.options.rounds or context.sizes.repeats)):
        for with_triggers in order(list(runs), number):
            runs[with_triggers].append(_drain(context, with_triggers=with_triggers))
    result = Result("triggers", data={"with": [asdict(one) for one in runs[True]]})
    result.data["without"] = [asdict(one) for one in runs[False]]
    rates = [[one.rate for one in each] for each in runs.values()]
    result.add("deliveries/s, with triggers", Spread.of(rates[0]))
    result.add("deliveries/s, without", Spread.of(rates[1]))
    spread = ratios(*rates)
    result.at_least("deliveries/s, with ÷ without", spread, spread.median, 1 - TARGET)
    for kind in ("database", "total"):
        cpu = [[one.total_cpu if kind == "total" else one.cpu[kind] for one in each] for each in runs.values()]
        result.add(f"µs of CPU per delivery, {kind}, with triggers", Spread.of(cpu[0]))
        result.add(f"µs of CPU per delivery, {kind}, without", Spread.of(cpu[1]))
        result.add(f"µs of CPU per delivery, {kind}, with ÷ without", ratios(*cpu))
    return result


def _drain(context: Context, *, with_triggers: bool) -> drain.DrainRun:
    database = context.database()
    database.empty()
    switched = nullcontext() if with_triggers else guards.switched_off(database.execute)
    # The loops have started by then: they refuse to start without triggers.
    with hub.running(context, database) as loops, switched:
        return drain.measure(context, loops, context.sizes.drain)
