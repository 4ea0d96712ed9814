"""Statistics of a workflow over a sample of its newest runs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext_noop as _

from . import filters
from .definition import Definition
from .filters import RunFilter
from .fold import fold
from .models import Fact, Instance
from .progress import WERE_DONE
from .state import (
    COMPENSATED,
    COMPLETED,
    DECIDED,
    DONE,
    FAILED,
    FAILURE,
    OBSERVED,
    STATUSES,
    TERMINAL,
)
from .state import Fact as FoldFact

SAMPLE = 1000
# Failed runs whose facts are read for the detection time.
FAILURES = 200


@dataclass(frozen=True)
class Target:
    """One of the ADR's targets; `value` and `is_met` are None without data."""

    name: str
    value: float | None
    bound: float
    at_least: bool
    unit: str
    basis: int

    @property
    def is_met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value > self.bound if self.at_least else self.value < self.bound

    @property
    def shown(self) -> str:
        return "–" if self.value is None else f"{self.value:.4g} {self.unit}"

    @property
    def wanted(self) -> str:
        return f"{'>' if self.at_least else '<'} {self.bound:g} {self.unit}"


@dataclass(frozen=True)
class StepStats:
    key: str
    title: str
    reached: int
    share: float
    p50: float | None
    p95: float | None


@dataclass(frozen=True)
class Statistics:
    sample: int
    since: datetime | None
    statuses: dict[str, int]
    steps: list[StepStats]
    p50: float | None
    p95: float | None
    targets: list[Target]


def statistics(definition: Definition) -> Statistics:
    rows = filters.newest_first(RunFilter(saga_type=definition.name), 1, None, SAMPLE)
    statuses = Counter(row.status for row in rows)
    seconds = [
        (row.completed_at - row.started_at).total_seconds()
        for row in rows
        if row.status == COMPLETED and row.completed_at is not None
    ]
    return Statistics(
        sample=len(rows),
        since=min((row.started_at for row in rows), default=None),
        statuses={status: statuses[status] for status in STATUSES},
        steps=_steps(definition, rows),
        p50=quantile(seconds, 0.5),
        p95=quantile(seconds, 0.95),
        targets=_targets(definition, rows, seconds),
    )


def _targets(definition: Definition, rows: Sequence[Instance], seconds: Sequence[float]) -> list[Target]:
    ended = [row for row in rows if row.status in TERMINAL]
    undone = [row for row in ended if row.compensation_started_at is not None]
    delays = _delays(definition, [row for row in ended if row.status in (COMPENSATED, FAILED)][:FAILURES])
    completed = sum(row.status == COMPLETED for row in ended)
    compensated = sum(row.status == COMPENSATED for row in undone)
    by_hand = sum(row.by_hand for row in ended)
    return [
        Target(_("runs that succeed"), _share(completed, len(ended)), 99.0, True, "%", len(ended)),
        Target(_("compensations that succeed"), _share(compensated, len(undone)), 99.9, True, "%", len(undone)),
        Target(_("mean duration"), _mean(seconds), 5.0, False, "s", len(seconds)),
        Target(_("time to detect a failure"), max(delays, default=None), 60.0, False, "s", len(delays)),
        Target(_("resolved by hand"), _share(by_hand, len(ended)), 0.1, False, "%", len(ended)),
    ]


def _delays(definition: Definition, rows: Sequence[Instance]) -> list[float]:
    """Seconds from each failure, or from the missed deadline, to the decision of the hub."""
    facts: dict[int, list[Fact]] = defaultdict(list)
    wanted = [row.id for row in rows if row.definition_version == definition.version]
    for fact in Fact.objects.filter(instance_id__in=wanted, role__in=(*OBSERVED, *DECIDED)).order_by("id"):
        facts[fact.instance_id].append(fact)
    found = (_delay(definition, each) for each in facts.values())
    return [delay for delay in found if delay is not None]


def _delay(definition: Definition, facts: Sequence[Fact]) -> float | None:
    decisions = [fact.occurred_at for fact in facts if fact.role in DECIDED]
    if not decisions:
        return None
    noticed_at = min(decisions)
    known = [fact for fact in facts if fact.role in OBSERVED and fact.occurred_at <= noticed_at]
    failures = [fact.occurred_at for fact in known if fact.role == FAILURE]
    if failures:
        return max(0.0, (noticed_at - min(failures)).total_seconds())
    if not known:
        return None
    due = fold(definition, [FoldFact(fact.role, fact.step, fact.occurred_at, fact.origin) for fact in known]).due
    return None if due is None else max(0.0, (noticed_at - due.at).total_seconds())


def _steps(definition: Definition, rows: Sequence[Instance]) -> list[StepStats]:
    reached: Counter[str] = Counter()
    for row in rows:
        states: dict[str, str] = json.loads(row.steps)
        reached.update(step for step, state in states.items() if state in WERE_DONE)
    durations = _durations(definition, rows)
    return [
        StepStats(
            step.key,
            step.title,
            reached[step.key],
            100 * reached[step.key] / len(rows) if rows else 0.0,
            quantile(durations[step.key], 0.5),
            quantile(durations[step.key], 0.95),
        )
        for step in definition.in_order
    ]


def _durations(definition: Definition, rows: Sequence[Instance]) -> dict[str, list[float]]:
    """Step → seconds from when all its predecessors were done until it was done."""
    done: dict[int, dict[str, datetime]] = defaultdict(dict)
    facts = Fact.objects.filter(instance_id__in=[row.id for row in rows], role=DONE)
    for instance_id, key, at in facts.values_list("instance_id", "step", "occurred_at"):
        done[instance_id][key] = min(at, done[instance_id].get(key, at))
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        times = done[row.id]
        for step in definition.steps:
            if step.key in times and times.keys() >= set(step.after):
                ready = max((times[key] for key in step.after), default=row.started_at)
                found[step.key].append(max(0.0, (times[step.key] - ready).total_seconds()))
    return found


def quantile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)] if ordered else None


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
