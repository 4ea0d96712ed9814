"""The words in which workflows are told: states of a saga, what facts say, and where they come from."""

from __future__ import annotations

# States of a business saga, as ADR-025 spells them.
IN_PROGRESS = "IN_PROGRESS"
COMPLETED = "COMPLETED"
COMPENSATING = "COMPENSATING"
COMPENSATED = "COMPENSATED"
FAILED = "FAILED"
STATUSES = (IN_PROGRESS, COMPLETED, COMPENSATING, COMPENSATED, FAILED)
OPEN = (IN_PROGRESS, COMPENSATING)
TERMINAL = (COMPLETED, COMPENSATED, FAILED)

# What was observed: said by an event, by a service that calls, or by an operator. Without a step it is of the whole.
STARTED = "started"
DONE = "done"
FAILURE = "failed"
UNDONE = "compensated"
UNDO_FAILED = "compensation_failed"
FINISHED = "completed"
CLOSED = "closed"
RETRIED = "retried"
# What the hub decided: numbered, so that of two who decide at once one is refused.
FAILING = "failing"
ENDED = "ended"
# What the hub published.
EMITTED = "emitted"
STEP_ROLES = (DONE, FAILURE, UNDONE, UNDO_FAILED)
OBSERVED = (STARTED, *STEP_ROLES, FINISHED, CLOSED, RETRIED)
DECIDED = (FAILING, ENDED)
ROLES = (*OBSERVED, *DECIDED, EMITTED)

# Where a fact comes from.
EVENT = "event"
VERB = "verb"
OPERATOR = "operator"
HUB = "hub"
ORIGINS = (EVENT, VERB, OPERATOR, HUB)

# Why a saga fails, or fails to be undone.
CAUSE_FAILED = "failed"
CAUSE_TIMED_OUT = "timed_out"
CAUSE_UNDO_FAILED = "compensation_failed"
CAUSE_UNDO_OVERDUE = "compensation_overdue"
CAUSE_CLOSED = "closed"
CAUSE_UNSEEN = "start_not_seen"

# How far a step is.
WAITING = "waiting"
RUNNING = "running"
STEP_DONE = "done"
STEP_FAILED = "failed"
STEP_TIMED_OUT = "timed_out"
UNDOING = "compensating"
STEP_UNDONE = "compensated"
STEP_UNDO_FAILED = "compensation_failed"
STEP_STATES = (
    WAITING,
    RUNNING,
    STEP_DONE,
    STEP_FAILED,
    STEP_TIMED_OUT,
    UNDOING,
    STEP_UNDONE,
    STEP_UNDO_FAILED,
)

# What the hub publishes of them.
SAGA_TIMED_OUT = "saga.timed_out"
SAGA_COMPENSATION_REQUESTED = "saga.compensation_requested"
SAGA_COMPLETED = "saga.completed"
SAGA_FAILED = "saga.failed"
EMISSIONS = (SAGA_TIMED_OUT, SAGA_COMPENSATION_REQUESTED, SAGA_COMPLETED, SAGA_FAILED)
