"""Figures of several runs in one: median, spread, percentiles, ratios of neighbours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of some runs, the least and the greatest of them, and how many there were."""

    median: float
    least: float
    greatest: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values), len(values))

    def __str__(self) -> str:
        if self.runs == 1:
            return f"{_short(self.median)} (one run)"
        return f"{_short(self.median)} ({_short(self.least)} to {_short(self.greatest)}, {self.runs} runs)"


def percentile(values: Sequence[float], part: float) -> float:
    """The least of `values` that at least `part` percent of them do not exceed (nearest rank)."""
    if not values or not 0 < part <= 100:
        raise ValueError("a percentile needs values, and a part above 0 and up to 100")
    return sorted(values)[math.ceil(len(values) * part / 100) - 1]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Run by run, each against its neighbour: what disturbs the machine lasts longer than a run."""
    return Spread.of([one / other for one, other in zip(ours, theirs, strict=True)])


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
