"""What a run waits for: its open steps, and the undelivered events that these steps react to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from sagas.models import Saga
from sagas.transitions import COMPLETED

from . import labels, versions
from .definition import Definition
from .models import Fact, Instance
from .state import DONE, EMITTED, RUNNING, SAGA_COMPENSATION_REQUESTED, STARTED, TIMED_OUT, UNDOING
from .timeline import latest_deliveries

# (step, role or type of the hub's event) → event
Sources = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Blocker:
    """An open step, and the deliveries it needs that have not succeeded."""

    step: str
    state: str
    deliveries: Sequence[Saga]

    def __str__(self) -> str:
        if not self.deliveries:
            return gettext("waits for %(step)s") % {"step": self.step}
        values = {"step": self.step, "deliveries": "; ".join(map(labels.delivery, self.deliveries))}
        return gettext("stuck at %(step)s: %(deliveries)s") % values


def blockers(instances: Sequence[Instance]) -> dict[int, list[Blocker]]:
    """Run id → its blockers, with a few queries for all runs."""
    registry = versions.in_force()
    open_steps = {run.id: _open_steps(run) for run in instances}
    sources = sources_of([pk for pk, steps in open_steps.items() if steps])
    deliveries = latest_deliveries({event for events in sources.values() for event in events.values()})

    def blocker(run: Instance, step: str, state: str) -> Blocker:
        definition = registry.get(run.saga_type, run.definition_version)
        events = causes(definition, step, state, sources.get(run.id, {}))
        undelivered = [saga for event in events for saga in deliveries.get(event, []) if saga.status != COMPLETED]
        return Blocker(step, state, undelivered)

    return {run.id: [blocker(run, *step) for step in open_steps[run.id].items()] for run in instances}


def causes(definition: Definition | None, step: str, state: str, sources: Sources) -> list[int]:
    """The events that a step's service reacts to: those of the previous steps, or the compensation request."""
    if state == UNDOING:
        pairs = [(step, SAGA_COMPENSATION_REQUESTED)]
    else:
        after = definition.by_key[step].after if definition and step in definition.by_key else ()
        pairs = [(before, DONE) for before in after] or [("", STARTED)]
    return sorted({sources[pair] for pair in pairs if pair in sources})


def sources_of(instance_ids: Sequence[int]) -> dict[int, dict[tuple[str, str], int]]:
    rows = Fact.objects.filter(
        instance_id__in=instance_ids, role__in=(STARTED, DONE, EMITTED), event_id__isnull=False
    ).order_by("id")
    sources: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    columns = ("instance_id", "step", "role", "detail", "event_id")
    for instance_id, step, role, detail, event_id in rows.values_list(*columns):
        sources[instance_id][step, detail if role == EMITTED else role] = event_id
    return sources


def _open_steps(run: Instance) -> dict[str, str]:
    """Steps that are running, timed out or being compensated."""
    return {step: state for step, state in run.step_states.items() if state in (RUNNING, UNDOING, TIMED_OUT)}
