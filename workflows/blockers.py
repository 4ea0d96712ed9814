"""What a saga waits for, and what stands in its way: the deliveries of the events that its open steps react to."""

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
from .timeline import Delivery, deliveries_of
from .words import DONE, EMITTED, RUNNING, SAGA_COMPENSATION_REQUESTED, STARTED, STEP_TIMED_OUT, UNDOING


@dataclass(frozen=True)
class Obstacle:
    """An open step of a saga, and the deliveries of what it reacts to that have not arrived."""

    step: str
    state: str
    deliveries: Sequence[Delivery]

    def __str__(self) -> str:
        if not self.deliveries:
            return gettext("waits for %(step)s") % {"step": self.step}
        given = {"step": self.step, "deliveries": "; ".join(map(str, self.deliveries))}
        return gettext("stuck at %(step)s: %(deliveries)s") % given


def obstacles(instances: Sequence[Instance]) -> dict[int, list[Obstacle]]:
    """For each of these sagas (id → obstacles), with a few queries for all of them."""
    known = versions.in_force()
    definitions = {row.id: known.get(row.saga_type, row.definition_version) for row in instances}
    waiting = {row.id: _open_steps(row) for row in instances}
    reacted = reacted_to([id for id, steps in waiting.items() if steps])
    deliveries = deliveries_of({event for events in reacted.values() for event in events.values()})
    found: dict[int, list[Obstacle]] = {}
    for id, steps in waiting.items():
        definition = definitions[id]
        found[id] = [
            Obstacle(
                step,
                state,
                [
                    delivery
                    for event in causes(definition, step, state, reacted.get(id, {}))
                    for delivery in deliveries.get(event, [])
                    if delivery.status != COMPLETED
                ],
            )
            for step, state in steps.items()
        ]
    return found


# (step, role or, of what the hub published, its type) → the event that said so
Said = Mapping[tuple[str, str], int]


def causes(definition: Definition | None, step: str, state: str, said: Said) -> list[int]:
    """The events that make a step's service act: those of the steps before it, or the request to undo it."""
    if state == UNDOING:
        asked = said.get((step, SAGA_COMPENSATION_REQUESTED))
        return [] if asked is None else [asked]
    after = definition.by_key[step].after if definition and step in definition.by_key else ()
    wanted = [(before, DONE) for before in after] or [("", STARTED)]
    return sorted({said[pair] for pair in wanted if pair in said})


def reacted_to(instance_ids: Sequence[int]) -> dict[int, dict[tuple[str, str], int]]:
    rows = Fact.objects.filter(
        instance_id__in=instance_ids, role__in=(STARTED, DONE, EMITTED), event_id__isnull=False
    ).order_by("id")
    found: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    for instance_id, step, role, detail, event_id in rows.values_list(
        "instance_id", "step", "role", "detail", "event_id"
    ):
        found[instance_id][step, detail if role == EMITTED else role] = event_id
    return found


def _open_steps(instance: Instance) -> dict[str, str]:
    """Steps that something is expected of: those under way, and those that are to be undone."""
    states: dict[str, str] = json.loads(instance.steps)
    return {step: state for step, state in states.items() if state in (RUNNING, UNDOING, STEP_TIMED_OUT)}
