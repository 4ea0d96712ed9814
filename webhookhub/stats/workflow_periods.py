"""Stats of workflows by the hour, so that a page can show them over time without counting runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Sum

from webhookhub.db.bulk import add_up

from . import counters
from .counters import Counts
from .models import WORKFLOW_COUNTED, WorkflowPeriod

KEY = ("starts_at", "workflow", "shard")
POSITION = {column: position for position, column in enumerate(WORKFLOW_COUNTED)}
# A failure should be detected within this time.
LATE_SECONDS = 60.0
COLUMNS = {
    counters.WORKFLOWS_STARTED: "started",
    counters.WORKFLOW_COMPENSATIONS: "compensations",
    counters.WORKFLOWS_BY_HAND: "by_hand",
    counters.WORKFLOW_DURATION_SUM: "duration_us",
    counters.WORKFLOW_DETECTIONS: "detections",
    counters.WORKFLOW_DETECTION_SUM: "detection_us",
}


@dataclass(frozen=True)
class WorkflowSummary:
    """The counts of one workflow, or of several, within a span of time."""

    started: int = 0
    completed: int = 0
    compensated: int = 0
    failed: int = 0
    compensations: int = 0
    by_hand: int = 0
    duration_us: int = 0
    detections: int = 0
    detected_late: int = 0
    detection_us: int = 0

    @property
    def ended(self) -> int:
        return self.completed + self.compensated + self.failed

    def __add__(self, other: WorkflowSummary) -> WorkflowSummary:
        return WorkflowSummary(*(getattr(self, name) + getattr(other, name) for name in WORKFLOW_COUNTED))


def add(counts: Counts, now: datetime) -> None:
    """Add the counters of workflows to the current hour. Call it after counters.add(), in the same transaction."""
    hour, shard = now.replace(minute=0, second=0, microsecond=0), counters.own_shard()
    rows: dict[tuple[datetime, str, int], list[int]] = defaultdict(lambda: [0] * len(WORKFLOW_COUNTED))
    for (name, label), value in counts.items():
        workflow, _, part = label.partition("/")
        for column in _columns(name, part):
            rows[hour, workflow, shard][POSITION[column]] += value
    add_up(WorkflowPeriod, KEY, WORKFLOW_COUNTED, rows)


def _columns(name: str, part: str) -> Iterator[str]:
    """The columns that a counter belongs to. `part`: the second part of its label."""
    if name == counters.WORKFLOWS_ENDED:
        yield part.lower()
    elif name in COLUMNS:
        yield COLUMNS[name]
    if name == counters.WORKFLOW_DETECTIONS and (part == counters.MORE or float(part) > LATE_SECONDS):
        yield "detected_late"


def series(since: datetime, until: datetime, step: timedelta) -> list[tuple[datetime, dict[str, WorkflowSummary]]]:
    """Workflow → summary for each step from `since` on, including empty ones."""
    steps: dict[int, dict[str, WorkflowSummary]] = defaultdict(lambda: defaultdict(WorkflowSummary))
    sums = {f"sum_{name}": Sum(name) for name in WORKFLOW_COUNTED}
    rows = WorkflowPeriod.objects.filter(starts_at__gte=since, starts_at__lt=until).order_by()
    for row in rows.values("starts_at", "workflow").annotate(**sums):
        summary = WorkflowSummary(*(int(row[f"sum_{name}"]) for name in WORKFLOW_COUNTED))
        steps[(row["starts_at"] - since) // step][row["workflow"]] += summary
    return [(since + index * step, dict(steps[index])) for index in range(-((since - until) // step))]
