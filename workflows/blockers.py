"""What a run waits for: its open steps, and the undelivered events that these steps react to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from sagas.transitions import COMPLETED

from . import versions
from .definition import Definition
from .models import Fact, Instance
from .state import DONE, EMITTED, RUNNING, SAGA_COMPENSATION_REQUESTED, STARTED, STEP_TIMED_OUT, UNDOING
from .timeline import Delivery, deliveries_of

# (step, role or type of the hub's event) → event
Sources = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Blocker:
    """An open step, and the deliveries it needs that have not succeeded."""

    step: str
    state: str
    deliveries: Sequence[Delivery]

    def __str__(self) -> str:
        if not self.deliveries:
            return gettext("waits for %(step)s") % {"step": self.step}
        values = {"step": self.step, "deliveries": "; ".join(map(str, self.deliveries))}
        return gettext("stuck at %(step)s: %(deliveries)s") % values


def blockers(instances: Sequence[Instance]) -> dict[int, list[Blocker]]:
    """Run id → its blockers, with a few queries for all runs."""
    known = versions.in_force()
    definitions = {row.id: known.get(row.saga_type, row.definition_version) for row in instances}
    open_steps = {row.id: _open_steps(row) for row in instances}
    sources = sources_of([id for id, steps in open_steps.items() if steps])
    deliveries = deliveries_of({event for events in sources.values() for event in events.values()})

    def undelivered(id: int, step: str, state: str) -> list[Delivery]:
        events = causes(definitions[id], step, state, sources.get(id, {}))
        return [each for event in events for each in deliveries.get(event, []) if each.status != COMPLETED]

    return {
        id: [Blocker(step, state, undelivered(id, step, state)) for step, state in steps.items()]
        for id, steps in open_steps.items()
    }


def causes(definition: Definition | None, step: str, state: str, sources: Sources) -> list[int]:
    """The events that a step's service reacts to: those of the previous steps, or the compensation request."""
    if state == UNDOING:
        request = sources.get((step, SAGA_COMPENSATION_REQUESTED))
        return [] if request is None else [request]
    after = definition.by_key[step].after if definition and step in definition.by_key else ()
    wanted = [(before, DONE) for before in after] or [("", STARTED)]
    return sorted({sources[pair] for pair in wanted if pair in sources})


def sources_of(instance_ids: Sequence[int]) -> dict[int, dict[tuple[str, str], int]]:
    rows = Fact.objects.filter(
        instance_id__in=instance_ids, role__in=(STARTED, DONE, EMITTED), event_id__isnull=False
    ).order_by("id")
    result: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    for instance_id, step, role, detail, event_id in rows.values_list(
        "instance_id", "step", "role", "detail", "event_id"
    ):
        result[instance_id][step, detail if role == EMITTED else role] = event_id
    return result


def _open_steps(instance: Instance) -> dict[str, str]:
    """Steps that are running, timed out or being compensated."""
    states: dict[str, str] = json.loads(instance.steps)
    return {step: state for step, state in states.items() if state in (RUNNING, UNDOING, STEP_TIMED_OUT)}
