"""Measures several installations in turns, and compares them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from tools.bench.context import ROOT, Context
from tools.bench.installation import Checkout, Installation, RunningHub
from tools.bench.results import Result, Spread, ratios, short

T = TypeVar("T")
RATE = "deliveries/s"  # higher is better; for all other figures, lower is better
# Stored rows may change a figure by this much.
TOLERANCE = 0.1


@dataclass
class Run:
    """Figures by name, further details, and the number of lost and duplicate deliveries."""

    figures: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    faults: int = 0


def order(items: Sequence[T], round_number: int) -> list[T]:
    """Each second round is reversed, so that no item always has the same place: the last one tends to be slower."""
    return list(items) if round_number % 2 == 0 else list(reversed(items))


def installations(context: Context) -> list[Installation]:
    """One for each checkout and number of stored deliveries. They are created at the first call."""
    if not context.installations:
        folders = context.options.compare or (ROOT,)
        for number, folder in enumerate(folders, 1):
            checkout = Checkout(folder)
            for stored in context.options.stored:
                label = f"{number}: {checkout.commit}" + (f", {stored:,} stored" if stored else "")
                name = f"checkout_{number}_{stored}"
                context.installations.append(Installation(context, label, checkout, name, stored))
    return context.installations


def measure(
    context: Context,
    name: str,
    run: Callable[[RunningHub], Run],
    before_round: Callable[[], None] = lambda: None,
) -> tuple[Result, dict[str, list[Run]]]:
    """Returns the result with all figures, and the runs of each installation by its label."""
    measured = installations(context)
    runs: dict[str, list[Run]] = {installation.label: [] for installation in measured}
    rounds = context.options.rounds or (2 if len(measured) > 1 else 1)
    for number in context.within(range(rounds)):
        before_round()
        for installation in order(measured, number):
            with installation.running() as hub:
                runs[installation.label].append(run(hub))
    result = Result(name, data={"runs": {label: [asdict(run) for run in each] for label, each in runs.items()}})
    result.failed = any(run.faults for each in runs.values() for run in each)
    _add_figures(result, measured, runs)
    return result, runs


def _add_figures(result: Result, measured: Sequence[Installation], runs: dict[str, list[Run]]) -> None:
    first, *others = [installation.label for installation in measured]
    if not others:
        for name in runs[first][0].figures:
            result.add(name, Spread.of(values(runs[first], name)))
        return
    for label in runs:
        result.add("measured", label)
    result.data["ratios"] = {}
    same_checkout = len({installation.checkout for installation in measured}) == 1
    for name in runs[first][0].figures:
        medians = " · ".join(short(statistics.median(values(each, name))) for each in runs.values())
        for label in others:
            if not all(values(runs[first], name)):
                result.add(name, medians)  # a value of 0 has no ratio
                continue
            spread = ratios(values(runs[label], name), values(runs[first], name))
            result.data["ratios"].setdefault(label, {})[name] = asdict(spread)
            text = f"{medians}; ÷ first: {spread}"
            if not same_checkout:
                result.add(name, text)
            elif RATE in name:
                result.at_least(name, text, spread.median, 1 - TOLERANCE)
            else:
                result.at_most(name, text, spread.median, 1 + TOLERANCE)


def values(runs: Sequence[Run], name: str) -> list[float]:
    return [run.figures[name] for run in runs]
