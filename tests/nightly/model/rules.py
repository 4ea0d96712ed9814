"""What must never be seen, in any state that can be reached."""

from __future__ import annotations

from sagas.transitions import COMPLETED, DEAD_LETTERED, IN_PROGRESS, LEGAL, TERMINAL

from .protocol import INBOX, OPEN, ROLLED_BACK, ROUTED, UNMATCHED, UNPUBLISHED, Protocol, State

# A committed event is routed, or found to be wanted by nobody; one that was rolled back goes nowhere.
FOLLOWING = {
    UNPUBLISHED: {OPEN},
    OPEN: {INBOX, ROLLED_BACK},
    INBOX: {ROUTED, UNMATCHED},
    ROUTED: set(),
    UNMATCHED: {ROUTED},  # two routers may have seen two answers
    ROLLED_BACK: set(),
}


def of_a_state(state: State, protocol: Protocol) -> str | None:
    """The first rule that a state breaks."""
    if state.event in (UNPUBLISHED, OPEN, ROLLED_BACK) and state.sagas:
        return "a delivery of an event that is not committed"
    generations = [saga.generation for saga in state.sagas]
    if len(set(generations)) != len(generations):
        return "two sagas of one generation"
    if state.event == ROUTED and not state.sagas and not any(p.kind == "router" and p.place for p in state.processes):
        return "an event has left the inbox and has no saga"
    if len(set(state.letters)) != len(state.letters):
        return "two dead letters of one saga"
    if len(set(state.requeues)) != len(state.requeues):
        return "two records of one requeue"
    if any(process.place == "in vain" for process in state.processes):
        return "a requeue that makes no saga"
    if any(process.place == "refused" for process in state.processes):
        return "an orchestrator that is refused a job"
    if any(process.place == "refused letter" for process in state.processes):
        return "an orchestrator that is refused a dead letter"
    if any(process.place == "refused saga" for process in state.processes):
        return "an orchestrator that is refused a transition"
    for number, saga in enumerate(state.sagas):
        jobs = [job for job in state.jobs if job.saga == number]
        active = sum(job.status in ("Pending", "Leased") for job in jobs)
        if active > 1:
            return "two active jobs"
        if len({job.attempt for job in jobs}) != len(jobs):
            return "two jobs of one attempt"
        if len(set(saga.applied)) != len(saga.applied):
            return "a result applied twice"
        if saga.attempts != len(saga.applied) or list(saga.applied) != list(range(1, saga.attempts + 1)):
            return "attempt_count is not the number of results applied"
        if any(job.attempt > saga.attempts + 1 for job in jobs):
            return "a job beyond the next attempt"
        if saga.status == COMPLETED and not saga.received:
            return "Completed and never received"
        if saga.status == COMPLETED and number in state.letters:
            return "Completed with a dead letter"
        if saga.status == DEAD_LETTERED and number not in state.letters:
            return "DeadLettered without a dead letter"
        if saga.status in TERMINAL and active:
            return "ended with an active job"
        if saga.status == IN_PROGRESS and not any(not job.settled for job in jobs):
            return "InProgress and nothing will move it"
        if any(job.told_by not in (0, job.token) for job in jobs):
            return "a result from a worker that had lost its lease"
        if any(job.settled and job.gone for job in jobs) and not state.disabled:
            return "a 410 that nobody has noticed"
        if any(job.settled and job.attempt > saga.attempts for job in jobs):
            return "a result marked settled that was not applied"
        if saga.status == DEAD_LETTERED and saga.attempts < protocol.limit and not saga.asked:
            return "buried before the limit"
        if saga.attempts > protocol.limit:
            return "an attempt beyond the limit"
        last = [job.status for job in jobs if job.attempt == saga.attempts]
        if saga.status == COMPLETED and "Completed" not in last:
            return "Completed without a 2xx"
        if saga.status != COMPLETED and "Completed" in last:
            return "a 2xx that does not complete"
    return None


def of_a_step(before: State, after: State) -> str | None:
    """The first rule that a change breaks."""
    if before.event != after.event and after.event not in FOLLOWING[before.event]:
        return "an event that leaves its way"
    if before.sagas is after.sagas and before.jobs is after.jobs:
        return None
    for old, new in zip(before.sagas, after.sagas, strict=False):
        if old.status in TERMINAL and (old.status, old.attempts) != (new.status, new.attempts):
            return "an ended saga has changed"
        if old.status != new.status and (old.status, new.status) not in LEGAL:
            return f"a saga goes from {old.status} to {new.status}"
    for earlier, later in zip(before.jobs, after.jobs, strict=False):
        if earlier.status in ("Completed", "Failed") and earlier.status != later.status:
            return "a finished job has changed"
    return None
