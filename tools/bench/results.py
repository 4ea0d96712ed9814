"""Results of scenarios: values of several runs, targets, and the printed table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spread:
    """Median, minimum, maximum and number of some runs."""

    median: float
    minimum: float
    maximum: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values), len(values))

    def __str__(self) -> str:
        if self.runs == 1:
            return f"{short(self.median)} (one run)"
        return f"{short(self.median)} ({short(self.minimum)} to {short(self.maximum)}, {self.runs} runs)"


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of `values` that is not exceeded by at least `percent` percent of them (nearest rank)."""
    if not values or not 0 < percent <= 100:
        raise ValueError("a percentile needs values, and a percentage above 0 and up to 100")
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Compares neighbouring runs, because disturbances of the machine last longer than one run."""
    return Spread.of([one / other for one, other in zip(ours, theirs, strict=True)])


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class Line:
    name: str
    value: str
    target: str = ""
    reached: bool | None = None


@dataclass
class Result:
    name: str
    lines: list[Line] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    skipped: str = ""  # the reason
    failed: bool = False  # deliveries were lost, duplicated or inconsistent

    def add(self, name: str, value: object) -> None:
        self.lines.append(Line(name, str(value)))

    def at_least(self, name: str, text: object, value: float, target: float) -> None:
        self.lines.append(Line(name, str(text), f"≥ {target:g}", value >= target))

    def at_most(self, name: str, text: object, value: float, target: float) -> None:
        self.lines.append(Line(name, str(text), f"≤ {target:g}", value <= target))


def table(results: list[Result]) -> str:
    """Aligned columns with a section for each scenario."""
    lines = [line for result in results for line in result.lines]
    names = max((len(line.name) for line in lines), default=0)
    # Long texts have no target and need not move that column.
    values = max((len(line.value) for line in lines if line.target), default=0)
    rows = []
    for result in results:
        rows.append(f"\n{result.name}" + (f": skipped, {result.skipped}" if result.skipped else ""))
        for line in result.lines:
            verdict = {None: "", True: "reached", False: "not reached"}[line.reached]
            rows.append(f"  {line.name:<{names}}  {line.value:<{values}}  {line.target:<7} {verdict}".rstrip())
    return "\n".join(rows)
