"""Runs checks one after the other and sums up what each has found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from webhookhub.db import clock

from .check import Bounds, Check, Violation
from .walk import Walk

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Result:
    """`first` are the first rows at fault; `found` is how many there are."""

    check: Check
    rows: int
    found: int
    first: list[Violation]
    seconds: float

    @property
    def is_violation(self) -> bool:
        return bool(self.found) and not self.check.warns


def run(
    checks: Sequence[Check], *, batch_size: int, grace: timedelta, limit: int, progress: Progress
) -> Iterator[Result]:
    """One result for each check; `progress` hears of parts done, parts in all, and the check under way."""
    walk = Walk(batch_size)
    bounds = Bounds(clock.now(), grace)
    total = sum(check.size(walk) for check in checks)
    done = 0
    for check in checks:
        started = time.monotonic()
        rows = found = 0
        first: list[Violation] = []
        for looked_at, violations in check.parts(walk, bounds):
            rows += looked_at
            found += len(violations)
            first += violations[: limit - len(first)]
            done += 1
            progress(done, total, check.name)
        yield Result(check, rows, found, first, time.monotonic() - started)
