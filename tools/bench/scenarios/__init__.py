"""The scenarios of `python -m tools.bench`, in their order, and the share of the time limit that each may use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from tools.bench.context import Context
from tools.bench.results import Result
from tools.bench.scenarios import backlog, celery, drain, embedded, floor, idle, latency, scale

# A scenario may also use the time that earlier ones have left over.
SHARES = {
    "drain": 0.13,
    "floor": 0.05,
    "celery": 0.17,
    "latency": 0.13,
    "backlog": 0.27,
    "scale": 0.12,
    "embedded": 0.06,
    "idle": 0.07,
}
NAMES = tuple(SHARES)
ALTERNATING = ("drain", "floor")


def run(context: Context, chosen: Collection[str]) -> Iterator[Result]:
    """Yields each result as soon as it is measured."""
    unit = 1 / sum(SHARES[name] for name in set(chosen))
    alternating = [name for name in ALTERNATING if name in chosen]
    if alternating:
        context.allow(unit * sum(SHARES[name] for name in alternating))
        for result in _drain_and_floor(context, alternating):
            yield _with_skipped_runs(context, result)
    others: dict[str, Callable[[], Result]] = {
        "celery": lambda: celery.run(context, beside_drain="drain" in chosen),
        "latency": lambda: latency.run(context),
        "backlog": lambda: backlog.run(context),
        "scale": lambda: scale.run(context),
        "embedded": lambda: embedded.run(context),
        "idle": lambda: idle.run(context),
    }
    for name, measure in others.items():
        if name in chosen:
            context.allow(unit * SHARES[name])
            yield _with_skipped_runs(context, measure())


def _drain_and_floor(context: Context, chosen: Collection[str]) -> list[Result]:
    """Runs of both alternate, so that a busy machine affects both equally."""
    drains: list[drain.DrainRun] = []
    floors: list[floor.FloorRun] = []
    for _ in context.within(range(context.sizes.repeats)):
        if "drain" in chosen:
            drains.append(drain.run(context, context.sizes.drain))
        if "floor" in chosen:
            floors.append(floor.run(context, context.sizes.drain))
    results = []
    if drains:
        results.append(drain.result(context, drains))
    if floors:
        results.append(floor.result(floors, drains))
    return results


def _with_skipped_runs(context: Context, result: Result) -> Result:
    if context.skipped_runs:
        result.add("runs skipped because of the time limit", context.skipped_runs)
    return result
