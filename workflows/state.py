"""Vocabulary of workflow runs, and the values that the fold takes and returns. Pure: no database, no Django."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

TEXT_LENGTH = 500
AGGREGATE_LENGTH = 200

# Statuses of a run, as ADR-025 spells them.
IN_PROGRESS = "IN_PROGRESS"
COMPLETED = "COMPLETED"
COMPENSATING = "COMPENSATING"
COMPENSATED = "COMPENSATED"
FAILED = "FAILED"
STATUSES = (IN_PROGRESS, COMPLETED, COMPENSATING, COMPENSATED, FAILED)
OPEN = (IN_PROGRESS, COMPENSATING)
TERMINAL = (COMPLETED, COMPENSATED, FAILED)

# Roles of observed facts: from an event, a service or an operator. Without a step, the fact is about the whole run.
STARTED = "started"
DONE = "done"
FAILURE = "failed"
UNDONE = "compensated"
UNDO_FAILED = "compensation_failed"
FINISHED = "completed"
CLOSED = "closed"
RETRIED = "retried"
# Roles of the hub's decisions. They are numbered, so that one of two concurrent decisions is refused.
FAILING = "failing"
ENDED = "ended"
# The hub published an event.
EMITTED = "emitted"
STEP_ROLES = (DONE, FAILURE, UNDONE, UNDO_FAILED)
OBSERVED = (STARTED, *STEP_ROLES, FINISHED, CLOSED, RETRIED)
DECIDED = (FAILING, ENDED)
ROLES = (*OBSERVED, *DECIDED, EMITTED)

# Origins of facts.
EVENT = "event"
VERB = "verb"
OPERATOR = "operator"
HUB = "hub"
ORIGINS = (EVENT, VERB, OPERATOR, HUB)

# States of a step: the role that its facts amount to, or one of these.
WAITING = "waiting"
RUNNING = "running"
UNDOING = "compensating"
TIMED_OUT = "timed_out"
STEP_STATES = (WAITING, RUNNING, TIMED_OUT, UNDOING, *STEP_ROLES)
# The step was done, whatever happened later.
WERE_DONE = (DONE, UNDOING, UNDONE, UNDO_FAILED)

# Why a run fails, or its compensation does: FAILURE, UNDO_FAILED, CLOSED, TIMED_OUT, or one of these.
UNDO_OVERDUE = "compensation_overdue"
START_UNSEEN = "start_not_seen"
TIME_OUTS = (TIMED_OUT, UNDO_OVERDUE, START_UNSEEN)

# Event types that the hub publishes about runs.
SAGA_TIMED_OUT = "saga.timed_out"
SAGA_COMPENSATION_REQUESTED = "saga.compensation_requested"
SAGA_COMPLETED = "saga.completed"
SAGA_FAILED = "saga.failed"
EMISSIONS = (SAGA_TIMED_OUT, SAGA_COMPENSATION_REQUESTED, SAGA_COMPLETED, SAGA_FAILED)


class UnreadableFact(ValueError):
    """A fact that this version of the hub does not write: another program has written it."""


def printable(text: str) -> str:
    """The beginning, without control characters: the text is shown on pages and terminals."""
    return "".join(character if character.isprintable() else " " for character in text[:TEXT_LENGTH]).strip()


@dataclass(frozen=True, slots=True)
class Fact:
    """`at`: when it happened. `detail`: the reason of a failure, a decision as JSON, or a published event's type."""

    role: str
    step: str
    at: datetime
    origin: str
    detail: str = ""
    aggregate_id: str | None = None
    decision_no: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of the hub, and the facts it is based on."""

    role: str
    step: str
    cause: str
    status: str
    error: str
    # The "step:role" pairs known at the time: every other pair is late.
    basis: tuple[str, ...]
    # Frozen by the decision: late facts do not change these.
    started_at: datetime
    aggregate_id: str | None
    # When it was taken; None if it is still to be taken.
    at: datetime | None = None

    def detail(self) -> str:
        content = {
            "cause": self.cause,
            "status": self.status,
            "error": self.error,
            "basis": self.basis,
            "started_at": self.started_at.isoformat(),
            "aggregate_id": self.aggregate_id,
        }
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def read(cls, role: str, step: str, detail: str, at: datetime) -> Decision:
        """The decision that was stored with `detail()`; UnreadableFact if anything else was."""
        try:
            content: dict[str, Any] = json.loads(detail)
            content |= {"basis": tuple(content["basis"]), "started_at": datetime.fromisoformat(content["started_at"])}
            decision = cls(role, step, **content, at=at)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UnreadableFact(f"a decision cannot be read: {type(error).__name__}: {error}") from error
        if not decision._is_one_of_the_hub():
            raise UnreadableFact("a decision has values that the hub does not write")
        return decision

    def _is_one_of_the_hub(self) -> bool:
        aggregate_id = "" if self.aggregate_id is None else self.aggregate_id
        texts = (self.cause, self.status, self.error, aggregate_id, *self.basis)
        return (
            all(isinstance(text, str) and text.isprintable() for text in texts)
            and self.status in (TERMINAL if self.role == ENDED else ("",))
            and len(self.error) <= TEXT_LENGTH
            and len(aggregate_id) <= AGGREGATE_LENGTH
            and self.started_at.utcoffset() == timedelta()
        )


@dataclass(frozen=True, slots=True)
class Effect:
    """An event to publish once."""

    kind: str
    step: str


@dataclass(frozen=True, slots=True)
class Due:
    """The deadline, and the cause and step of the decision when it passes."""

    at: datetime
    cause: str
    step: str = ""


COLUMNS = (
    "aggregate_id",
    "current_step",
    "status",
    "started_at",
    "completed_at",
    "error_message",
    "compensation_started_at",
    "deadline",
    "steps",
    "anomaly",
    "needs_operator",
    "by_hand",
)


@dataclass(frozen=True)
class State:
    status: str
    current_step: str
    started_at: datetime
    steps: Mapping[str, str]
    completed_at: datetime | None = None
    compensation_started_at: datetime | None = None
    error_message: str = ""
    aggregate_id: str | None = None
    # Why compensation started; error_message may describe a later failure.
    failing_error: str = ""
    # Facts that arrived after the end, or contradict the state.
    anomaly: str = ""
    # Something is left that only an operator can resolve.
    needs_operator: bool = False
    # An operator has intervened.
    by_hand: bool = False
    # When the failure was observed.
    failed_at: datetime | None = None
    due: Due | None = None
    # The decision to take now.
    next: Decision | None = None
    # The decisions that were taken, the first one first.
    decisions: tuple[Decision, ...] = ()
    # Events still to publish, in this order.
    effects: tuple[Effect, ...] = ()

    @property
    def deadline(self) -> datetime | None:
        return self.due.at if self.due else None

    def columns(self) -> dict[str, Any]:
        """The columns of the run's row that follow from its facts."""
        columns = {name: getattr(self, name) for name in COLUMNS}
        return {**columns, "steps": json.dumps(self.steps)}
