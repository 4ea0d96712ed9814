"""Whether every workflow was tracked: by the stored events of its steps, and by what the hub says of it itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from .evidence import Evidence
from .stage import WORKFLOW, WORKFLOW_STEPS

# Whose the events are that the hub publishes itself, and the one that it publishes here.
HUB = "hub"
DONE = "COMPLETED"
SAGA_COMPLETED = "saga.completed"


def workflows_are_tracked(evidence: Evidence) -> Iterator[str]:
    steps: dict[str, set[str]] = defaultdict(set)
    for event in evidence.events.values():
        if event.event_type in WORKFLOW_STEPS and event.key[0] != HUB:
            steps[event.correlation].add(event.event_type)
    tracked = Counter((workflow.saga_type, workflow.correlation) for workflow in evidence.workflows)
    for correlation in sorted(steps):
        if tracked[WORKFLOW, correlation] != 1:
            yield f"{correlation} has {tracked[WORKFLOW, correlation]} workflows"
    wanted = {(WORKFLOW, correlation) for correlation in steps}
    yield from (f"{saga_type} {key} was begun by nobody" for saga_type, key in sorted(tracked.keys() - wanted))
    said = Counter(event.key[1] for event in evidence.events.values() if event.key[0] == HUB)
    for workflow in evidence.workflows:
        done = steps[workflow.correlation] >= set(WORKFLOW_STEPS)
        if done and workflow.status != DONE:
            yield f"{workflow} has all its steps"
        if said.pop(f"{workflow.saga_id}/{SAGA_COMPLETED}/", 0) != (workflow.status == DONE):
            yield f"{workflow}: that it is completed was not said exactly when it is"
    yield from (f"the hub has published {external_id}, of which nobody knows" for external_id in sorted(said))


def replay_agrees(evidence: Evidence) -> Iterator[str]:
    if evidence.replay:
        yield evidence.replay
