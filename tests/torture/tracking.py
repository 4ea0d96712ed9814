"""Whether every workflow was tracked: by the stored events of its steps, and by what the hub says of it itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from .evidence import Event, Evidence, Workflow
from .stage import WORKFLOW, WORKFLOW_STEPS

# Whose the events are that the hub publishes itself, and those that it publishes here.
HUB = "hub"
DONE = "COMPLETED"
SAGA_COMPLETED = "saga.completed"
SAGA_TIMED_OUT = "saga.timed_out"
SAGA_COMPENSATION_REQUESTED = "saga.compensation_requested"
# By step: the event it waits for, the one before it, and how long it may take, as the definition has it.
DEADLINES = {
    "email": ("email.sent", "customer.registered", timedelta(seconds=600)),
    "loyalty": ("loyalty.account_created", "email.sent", timedelta(seconds=600)),
}
TO_COMPENSATE = "customer"


def workflows_are_tracked(evidence: Evidence) -> Iterator[str]:
    steps: dict[str, dict[str, datetime]] = defaultdict(dict)
    for event in evidence.events.values():
        if event.event_type in WORKFLOW_STEPS and event.key[0] != HUB:
            steps[event.correlation][event.event_type] = event.created_at
    tracked = Counter((workflow.saga_type, workflow.correlation) for workflow in evidence.workflows)
    for correlation in sorted(steps):
        if tracked[WORKFLOW, correlation] != 1:
            yield f"{correlation} has {tracked[WORKFLOW, correlation]} workflows"
    wanted = {(WORKFLOW, correlation) for correlation in steps}
    yield from (f"{saga_type} {key} was begun by nobody" for saga_type, key in sorted(tracked.keys() - wanted))
    said = {event.key[1]: event for event in evidence.events.values() if event.key[0] == HUB}
    words = Counter(event.key[1] for event in evidence.events.values() if event.key[0] == HUB)
    yield from (f"the hub has published {word} {count} times" for word, count in words.items() if count > 1)
    for workflow in evidence.workflows:
        done = steps[workflow.correlation].keys() >= set(WORKFLOW_STEPS)
        if done and workflow.status != DONE:
            yield f"{workflow} has all its steps"
        if bool(said.pop(f"{workflow.saga_id}/{SAGA_COMPLETED}/", None)) != (workflow.status == DONE):
            yield f"{workflow}: that it is completed was not said exactly when it is"
        _forget_what_is_overdue(workflow, steps[workflow.correlation], said)
    yield from (f"the hub has published {external_id}, of which nobody knows" for external_id in sorted(said))


def _forget_what_is_overdue(workflow: Workflow, steps: dict[str, datetime], said: dict[str, Event]) -> None:
    """A long run lasts longer than a step may: where the next one was never stored, the hub has to say so, and not
    before its time."""
    for step, (awaited, before, allowed) in DEADLINES.items():
        word = f"{workflow.saga_id}/{SAGA_TIMED_OUT}/{step}"
        was_missing = word in said and awaited not in steps and before in steps
        if was_missing and said[word].created_at >= steps[before] + allowed:
            del said[word]
            said.pop(f"{workflow.saga_id}/{SAGA_COMPENSATION_REQUESTED}/{TO_COMPENSATE}", None)


def replay_agrees(evidence: Evidence) -> Iterator[str]:
    if evidence.replay:
        yield evidence.replay
