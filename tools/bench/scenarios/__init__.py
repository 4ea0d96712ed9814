"""The scenarios of `python -m tools.bench`, in their order, and the share of the time limit that each may use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from tools.bench.context import Context
from tools.bench.results import Result
from tools.bench.scenarios import (
    after_silence,
    backlog,
    celery,
    drain,
    embedded,
    endtoend,
    floor,
    floor_single,
    idle,
    isolation,
    latency,
    scale,
    triggers,
)

# A scenario may also use the time that earlier ones have left over.
SHARES = {
    "drain": 0.10,
    "floor": 0.04,
    "celery": 0.12,
    "latency": 0.09,
    "backlog": 0.19,
    "scale": 0.09,
    "embedded": 0.04,
    "idle": 0.05,
    "endtoend": 0.20,
    "after_silence": 0.08,
    "isolation": 1.0,
    "triggers": 0.2,
}
NAMES = tuple(SHARES)
# With its full sizes, isolation takes longer than all others together; triggers are of interest after a change to one.
DEFAULT = tuple(name for name in NAMES if name not in ("isolation", "triggers"))
THROUGH_API = ("endtoend", "after_silence")
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
        "endtoend": lambda: endtoend.run(context),
        "after_silence": lambda: after_silence.run(context),
        "isolation": lambda: isolation.run(context),
        "triggers": lambda: triggers.run(context),
    }
    for name, measure in others.items():
        if name in chosen:
            context.allow(unit * SHARES[name])
            yield _with_skipped_runs(context, measure())


def _drain_and_floor(context: Context, chosen: Collection[str]) -> list[Result]:
    """Runs of both alternate, so that a busy machine affects both equally."""
    drains: list[drain.DrainRun] = []
    floors: list[floor.FloorRun] = []
    singles: list[floor_single.SingleFloorRun] = []
    for _ in context.within(range(context.sizes.repeats)):
        if "drain" in chosen:
            drains.append(drain.run(context, context.sizes.drain))
        if "floor" in chosen:
            floors.append(floor.run(context, context.sizes.drain))
            singles.append(floor_single.run(context, context.sizes.single))
    results = []
    if drains:
        results.append(drain.result(context, drains))
    if floors:
        results.append(floor.result(floors, drains))
        floor_single.add_to(results[-1], singles)
    return results


def _with_skipped_runs(context: Context, result: Result) -> Result:
    if context.skipped_runs:
        result.add("runs skipped because of the time limit", context.skipped_runs)
    return result
