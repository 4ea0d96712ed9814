"""Claims about workflow runs: the stored events of their steps against `saga_instances` and the hub's own events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from tools.torture.observations import LONG_AGO, Event, Observations, Workflow
from tools.torture.prepare import WORKFLOW, WORKFLOW_STEPS

# The source and the types of the hub's own events.
HUB = "hub"
SAGA_COMPLETED = "saga.completed"
SAGA_TIMED_OUT = "saga.timed_out"
SAGA_COMPENSATION_REQUESTED = "saga.compensation_requested"
COMPLETED = "COMPLETED"
# By step: the event it waits for, the previous event, and the time allowed by the definition.
DEADLINES = {
    "email": ("email.sent", "customer.registered", timedelta(seconds=600)),
    "loyalty": ("loyalty.account_created", "email.sent", timedelta(seconds=600)),
}
# Steps that can be compensated, and the events that show that they are done: their own or those of a later step.
TO_COMPENSATE = {"customer": set(WORKFLOW_STEPS), "loyalty": {"loyalty.account_created", "gift.sent"}}
# The last required step, and the optional one after it.
LAST_STEPS = {"loyalty.account_created", "gift.sent"}
# Allowed after a deadline, while loops are killed twice a second.
NOTICED_WITHIN = timedelta(seconds=60)


def workflows_are_tracked(observed: Observations) -> Iterator[str]:
    steps: dict[str, dict[str, datetime]] = defaultdict(dict)
    for event in observed.events.values():
        if event.event_type in WORKFLOW_STEPS and event.key[0] != HUB:
            steps[event.correlation][event.event_type] = event.created_at
    tracked = Counter((workflow.saga_type, workflow.correlation) for workflow in observed.workflows)
    for correlation in sorted(steps):
        if tracked[WORKFLOW, correlation] != 1:
            yield f"{correlation} has {tracked[WORKFLOW, correlation]} workflows"
    expected = {(WORKFLOW, correlation) for correlation in steps}
    yield from (f"{saga_type} {key} has no events" for saga_type, key in sorted(tracked.keys() - expected))
    now = max((event.created_at for event in observed.events.values()), default=LONG_AGO)
    published = {event.key[1]: event for event in observed.events.values() if event.key[0] == HUB}
    counts = Counter(event.key[1] for event in observed.events.values() if event.key[0] == HUB)
    yield from (f"the hub has published {key} {count} times" for key, count in counts.items() if count > 1)
    for workflow in observed.workflows:
        stored = steps[workflow.correlation]
        if stored.keys() >= set(WORKFLOW_STEPS) and workflow.status != COMPLETED:
            yield f"{workflow} has all its steps"
        if workflow.status == COMPLETED and not stored.keys() & LAST_STEPS:
            yield f"{workflow} has only {', '.join(stored)}"
        if bool(published.pop(f"{workflow.saga_id}/{SAGA_COMPLETED}/", None)) != (workflow.status == COMPLETED):
            yield f"{workflow}: {SAGA_COMPLETED} must be published exactly if it is completed"
        yield from _overdue(workflow, stored, published, now)
    yield from (f"the hub has published {external_id} without a reason" for external_id in sorted(published))


def _overdue(
    workflow: Workflow, stored: dict[str, datetime], published: dict[str, Event], now: datetime
) -> Iterator[str]:
    """If a step has exceeded its deadline, the hub must publish that in time, not before, and request compensation.

    Removes the expected events from `published`.
    """
    for step, (awaited, previous, allowed) in DEADLINES.items():
        if awaited in stored or previous not in stored or workflow.status == COMPLETED:
            continue
        deadline = stored[previous] + allowed
        timed_out = published.get(f"{workflow.saga_id}/{SAGA_TIMED_OUT}/{step}")
        if timed_out is None:
            if now > deadline + NOTICED_WITHIN and not _is_implied(awaited, stored):
                yield f"{workflow}: no time-out of {step} was published"
        elif timed_out.created_at >= deadline:
            del published[timed_out.key[1]]
            for done in (key for key, events in TO_COMPENSATE.items() if stored.keys() & events):
                if published.pop(f"{workflow.saga_id}/{SAGA_COMPENSATION_REQUESTED}/{done}", None) is None:
                    yield f"{workflow}: no compensation of {done} was requested after the time-out of {step}"


def _is_implied(awaited: str, stored: dict[str, datetime]) -> bool:
    """A later step implies the earlier ones."""
    return any(later in stored for later in WORKFLOW_STEPS[WORKFLOW_STEPS.index(awaited) + 1 :])


def replay_agrees(observed: Observations) -> Iterator[str]:
    if observed.replay:
        yield observed.replay
