"""Whether every workflow was tracked: by the stored events of its steps, and by what the hub says of it itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from .evidence import LONG_AGO, Event, Evidence, Workflow
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
# What can be undone, and what shows that it was done: its own event, or that of a step which needs it.
TO_COMPENSATE = {"customer": set(WORKFLOW_STEPS), "loyalty": {"loyalty.account_created", "gift.sent"}}
# The last step that is needed, and the one that may come after it.
ENDS = {"loyalty.account_created", "gift.sent"}
# Beyond its deadline, with every loop killed twice a second and the database now and then.
NOTICED_WITHIN = timedelta(seconds=60)


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
    now = max((event.created_at for event in evidence.events.values()), default=LONG_AGO)
    said = {event.key[1]: event for event in evidence.events.values() if event.key[0] == HUB}
    words = Counter(event.key[1] for event in evidence.events.values() if event.key[0] == HUB)
    yield from (f"the hub has published {word} {count} times" for word, count in words.items() if count > 1)
    for workflow in evidence.workflows:
        stored = steps[workflow.correlation]
        if stored.keys() >= set(WORKFLOW_STEPS) and workflow.status != DONE:
            yield f"{workflow} has all its steps"
        if workflow.status == DONE and not stored.keys() & ENDS:
            yield f"{workflow} has only {', '.join(stored)}"
        if bool(said.pop(f"{workflow.saga_id}/{SAGA_COMPLETED}/", None)) != (workflow.status == DONE):
            yield f"{workflow}: that it is completed was not said exactly when it is"
        yield from _overdue(workflow, stored, said, now)
    yield from (f"the hub has published {external_id}, of which nobody knows" for external_id in sorted(said))


def _overdue(workflow: Workflow, stored: dict[str, datetime], said: dict[str, Event], now: datetime) -> Iterator[str]:
    """A long run lasts longer than a step may: where the next one was never stored, the hub has to say so, in time and
    not before, and to have it undone. What it has said rightly is taken out of `said`."""
    for step, (awaited, before, allowed) in DEADLINES.items():
        if awaited in stored or before not in stored or workflow.status == DONE:
            continue
        deadline = stored[before] + allowed
        told = said.get(f"{workflow.saga_id}/{SAGA_TIMED_OUT}/{step}")
        if told is None:
            if now > deadline + NOTICED_WITHIN and not _is_presumed(awaited, stored):
                yield f"{workflow}: nobody was told that {step} took too long"
        elif told.created_at >= deadline:
            del said[told.key[1]]
            for done in (key for key, proofs in TO_COMPENSATE.items() if stored.keys() & proofs):
                if said.pop(f"{workflow.saga_id}/{SAGA_COMPENSATION_REQUESTED}/{done}", None) is None:
                    yield f"{workflow}: nobody was told to undo {done} though {step} took too long"


def _is_presumed(awaited: str, stored: dict[str, datetime]) -> bool:
    """A later step stands for those before it."""
    return any(later in stored for later in WORKFLOW_STEPS[WORKFLOW_STEPS.index(awaited) + 1 :])


def replay_agrees(evidence: Evidence) -> Iterator[str]:
    if evidence.replay:
        yield evidence.replay
