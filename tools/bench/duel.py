"""Scenarios `drain` and `floor`: in turns, so that a noisy machine disturbs both alike; compared turn by turn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from tools.bench import drain, floor
from tools.bench.context import Context
from tools.bench.drain import DrainRun
from tools.bench.floor import FloorRun
from tools.bench.result import Result
from tools.bench.spread import Spread, ratios

TARGET = 0.6


def run(context: Context, chosen: Collection[str]) -> list[Result]:
    count = context.sizes.drain
    drains: list[DrainRun] = []
    floors: list[FloorRun] = []
    for _ in context.within(range(context.sizes.repeats)):
        if "drain" in chosen:
            drains.append(drain.run(context, count))
        if "floor" in chosen:
            floors.append(floor.run(context, count))
    results = []
    if drains:
        results.append(_drain(context, drains))
    if floors:
        results.append(_floor(floors))
    if drains and floors:
        _compare(results[-1], drains, floors)
    return results


def _drain(context: Context, runs: list[DrainRun]) -> Result:
    result = Result("drain", data={"runs": [asdict(run) for run in runs], "deliveries_per_run": context.sizes.drain})
    result.say("deliveries/s", Spread.of([run.rate for run in runs]))
    for kind in runs[0].cpu:
        result.say(f"µs of CPU per delivery, {kind}", Spread.of([run.cpu[kind] for run in runs]))
    result.say("µs of CPU per delivery, all", Spread.of([sum(run.cpu.values()) for run in runs]))
    result.say("received twice", sum(run.duplicates for run in runs))
    result.wrong = any(run.duplicates for run in runs)
    if context.sizes.variants:
        _variants(context, result)
    return result


def _variants(context: Context, result: Result) -> None:
    """Once each: what the log costs at the level it has by default, and what several subscriptions per event do."""
    talkative = drain.run(context, context.sizes.drain, WEBHOOKHUB_LOG_LEVEL="INFO")
    result.say("deliveries/s, log at INFO", Spread.of([talkative.rate]))
    result.say("µs of CPU per delivery, all, log at INFO", Spread.of([sum(talkative.cpu.values())]))
    wide = drain.run(context, context.sizes.drain, width=4)
    result.say("deliveries/s, 4 subscriptions per event", Spread.of([wide.rate]))
    result.say("µs of CPU per delivery, all, 4 subscriptions", Spread.of([sum(wide.cpu.values())]))
    result.data |= {"log_at_info": asdict(talkative), "four_subscriptions": asdict(wide)}


def _floor(runs: list[FloorRun]) -> Result:
    result = Result("floor", data={"runs": [asdict(run) for run in runs]})
    result.say("deliveries/s", Spread.of([run.rate for run in runs]))
    for stage in runs[0].stages:
        result.say(f"µs per delivery, {stage}", Spread.of([run.stages[stage] for run in runs]))
    result.say("µs per event to publish it (not counted)", Spread.of([run.publish for run in runs]))
    result.say("µs of CPU per delivery, all", Spread.of([run.cpu for run in runs]))
    return result


def _compare(result: Result, drains: list[DrainRun], floors: list[FloorRun]) -> None:
    rates = ratios([run.rate for run in drains], [run.rate for run in floors])
    result.at_least("drain ÷ floor, deliveries/s", rates, rates.median, TARGET)
    # Of a machine that is busy with other things, this says more than the rates do.
    cpu = ratios([run.cpu for run in floors], [sum(run.cpu.values()) for run in drains])
    result.say("floor ÷ drain, CPU per delivery", cpu)
    result.data |= {"drain_to_floor": asdict(rates), "floor_to_drain_cpu": asdict(cpu)}
