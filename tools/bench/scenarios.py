"""The scenarios in their order, and how much of the time each may take."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tools.bench import backlog, celery_run, duel, embedded, idle, latency, scale
from tools.bench.context import Context
from tools.bench.result import Result

# Parts of the whole time; what one does not use is there for those after it.
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


def run(context: Context, chosen: Collection[str]) -> Iterator[Result]:
    """One result after the other, as they are found."""
    unit = 1 / sum(SHARES[name] for name in set(chosen))
    duelists = [name for name in ("drain", "floor") if name in chosen]
    if duelists:
        context.allow(unit * sum(SHARES[name] for name in duelists))
        for result in duel.run(context, duelists):
            yield _complete(context, result)
    for name in NAMES:
        if name in chosen and name not in duelists:
            context.allow(unit * SHARES[name])
            yield _complete(context, _others(name, context, "drain" in chosen))


def _complete(context: Context, result: Result) -> Result:
    if context.left_out:
        result.say("runs left out for want of time", context.left_out)
    return result


def _others(name: str, context: Context, beside_drain: bool) -> Result:
    match name:
        case "celery":
            return celery_run.run(context, beside_drain)
        case "latency":
            return latency.run(context)
        case "backlog":
            return backlog.run(context)
        case "scale":
            return scale.run(context)
        case "embedded":
            return embedded.run(context)
        case _:
            return idle.run(context)
