"""Stats of a workflow: over a sample of its newest runs, and over time from the counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from django.utils.translation import gettext_noop as _

from webhookhub.stats.workflow_periods import LATE_SECONDS, WorkflowSummary

from . import facts
from .definition import Definition, Step
from .filters import RunFilter
from .fold import fold
from .models import Fact, Instance
from .state import COMPENSATED, COMPLETED, DECIDED, DONE, FAILED, OBSERVED, STATUSES, TERMINAL, WERE_DONE
from .state import Fact as FactValue

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
    # How many missed the target, where the value is a mean and a mean is not enough.
    missed: int = 0

    @property
    def is_met(self) -> bool | None:
        if self.value is None:
            return None
        if self.missed:
            return False
        return self.value > self.bound if self.at_least else self.value < self.bound

    @property
    def shown(self) -> str:
        return "–" if self.value is None else f"{self.value:.4g} {self.unit}"

    @property
    def wanted(self) -> str:
        return f"{'>' if self.at_least else '<'} {self.bound:g} {self.unit}"


@dataclass(frozen=True)
class StepStats:
    step: Step
    reached: int
    share: float
    p50: float | None
    p95: float | None


@dataclass(frozen=True)
class WorkflowStats:
    sample: int
    since: datetime | None
    statuses: dict[str, int]
    steps: list[StepStats]
    p50: float | None
    p95: float | None
    targets: list[Target]


def read(definition: Definition) -> WorkflowStats:
    runs = RunFilter(saga_type=definition.name).newest_first(1, None, SAMPLE)
    statuses = Counter(run.status for run in runs)
    seconds = [
        (run.completed_at - run.started_at).total_seconds()
        for run in runs
        if run.status == COMPLETED and run.completed_at is not None
    ]
    return WorkflowStats(
        sample=len(runs),
        since=min((run.started_at for run in runs), default=None),
        statuses={status: statuses[status] for status in STATUSES},
        steps=_steps(definition, runs),
        p50=quantile(seconds, 0.5),
        p95=quantile(seconds, 0.95),
        targets=_targets(definition, runs, seconds),
    )


def targets_of(summary: WorkflowSummary) -> list[Target]:
    """The ADR's targets from counters, for one workflow or for several together."""
    ended, compensations, detections = summary.ended, summary.compensations, summary.detections
    mean = summary.duration_us / summary.completed / 1e6 if summary.completed else None
    delay = summary.detection_us / detections / 1e6 if detections else None
    return [
        Target(_("runs that succeed"), _share(summary.completed, ended), 99.0, True, "%", ended),
        Target(
            _("compensations that succeed"), _share(summary.compensated, compensations), 99.9, True, "%", compensations
        ),
        Target(_("mean duration"), mean, 5.0, False, "s", summary.completed),
        Target(_("time to detect a failure"), delay, LATE_SECONDS, False, "s", detections, summary.detected_late),
        Target(_("resolved by hand"), _share(summary.by_hand, ended), 0.1, False, "%", ended),
    ]


def _targets(definition: Definition, runs: Sequence[Instance], seconds: Sequence[float]) -> list[Target]:
    ended = [run for run in runs if run.status in TERMINAL]
    undone = [run for run in ended if run.compensation_started_at is not None]
    delays = _delays(definition, [run for run in ended if run.status in (COMPENSATED, FAILED)][:FAILURES])
    completed = sum(run.status == COMPLETED for run in ended)
    compensated = sum(run.status == COMPENSATED for run in undone)
    by_hand = sum(run.by_hand for run in ended)
    mean = fmean(seconds) if seconds else None
    return [
        Target(_("runs that succeed"), _percent(completed, ended), 99.0, True, "%", len(ended)),
        Target(_("compensations that succeed"), _percent(compensated, undone), 99.9, True, "%", len(undone)),
        Target(_("mean duration"), mean, 5.0, False, "s", len(seconds)),
        Target(_("time to detect a failure"), max(delays, default=None), 60.0, False, "s", len(delays)),
        Target(_("resolved by hand"), _percent(by_hand, ended), 0.1, False, "%", len(ended)),
    ]


def _delays(definition: Definition, runs: Sequence[Instance]) -> list[float]:
    """Seconds from each failure, or from the missed deadline, to the decision of the hub."""
    ids = [run.id for run in runs if run.definition_version == definition.version]
    delays = (_delay(definition, own) for own in facts.of(ids).values())
    return [delay for delay in delays if delay is not None]


def _delay(definition: Definition, own: Sequence[FactValue]) -> float | None:
    decided_at = min((fact.at for fact in own if fact.role in DECIDED), default=None)
    if decided_at is None:
        return None
    observed = [fact for fact in own if fact.role in OBSERVED and fact.at <= decided_at]
    if not observed:
        return None
    state = fold(definition, observed)
    since = state.failed_at or state.deadline
    return None if since is None else max(0.0, (decided_at - since).total_seconds())


def _steps(definition: Definition, runs: Sequence[Instance]) -> list[StepStats]:
    reached = Counter(step for run in runs for step, state in run.step_states.items() if state in WERE_DONE)
    durations = _durations(definition, runs)
    return [
        StepStats(
            step,
            reached[step.key],
            _percent(reached[step.key], runs) or 0.0,
            quantile(durations[step.key], 0.5),
            quantile(durations[step.key], 0.95),
        )
        for step in definition.in_order
    ]


def _durations(definition: Definition, runs: Sequence[Instance]) -> dict[str, list[float]]:
    """Step → seconds from when all its predecessors were done until it was done."""
    done: dict[int, dict[str, datetime]] = defaultdict(dict)
    rows = Fact.objects.filter(instance_id__in=[run.id for run in runs], role=DONE)
    for instance_id, key, at in rows.values_list("instance_id", "step", "occurred_at"):
        done[instance_id][key] = min(at, done[instance_id].get(key, at))
    durations: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        times = done[run.id]
        for step in definition.steps:
            if step.key in times and times.keys() >= set(step.after):
                ready_at = max((times[key] for key in step.after), default=run.started_at)
                durations[step.key].append(max(0.0, (times[step.key] - ready_at).total_seconds()))
    return durations


def quantile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)] if ordered else None


def _percent(part: int, whole: Sequence[Instance]) -> float | None:
    return _share(part, len(whole))


def _share(part: int, whole: int) -> float | None:
    """In percent."""
    return 100 * part / whole if whole else None
