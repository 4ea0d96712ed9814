"""Runs checks and sums up their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from webhookhub.db import clock

from .check import Bounds, Check, Violation
from .tables import Batches

# Gets the number of parts; returns a function that shows how many are done, and the current check.
Progress = Callable[[int], Callable[[int, str], None]]


@dataclass(frozen=True)
class Result:
    """`found` is the number of violations, `first` the first of them."""

    check: Check
    rows: int
    found: int
    first: list[Violation]
    seconds: float

    @property
    def is_violation(self) -> bool:
        return bool(self.found) and not self.check.is_warning


def run(
    checks: Sequence[Check], *, batch_size: int, grace: timedelta, limit: int, progress: Progress
) -> Iterator[Result]:
    """One result per check."""
    batches = Batches(batch_size)
    bounds = Bounds(clock.now(), grace)
    show = progress(sum(check.size(batches) for check in checks))
    done = 0
    for check in checks:
        started = time.monotonic()
        rows = found = 0
        first: list[Violation] = []
        for examined, violations in check.parts(batches, bounds):
            rows += examined
            found += len(violations)
            first += violations[: limit - len(first)]
            done += 1
            show(done, check.name)
        yield Result(check, rows, found, first, time.monotonic() - started)
