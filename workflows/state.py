"""What is known of a saga, what is to be decided, and what it comes to: the words of the fold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

TEXT_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Fact:
    """`at` is when it happened. `detail` is the reason of a failure, the content of a decision as JSON, or the type of
    what was published."""

    role: str
    step: str
    at: datetime
    origin: str
    detail: str = ""
    aggregate_id: str | None = None
    decision_no: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What the hub has to decide next, and on what grounds."""

    role: str
    step: str
    cause: str = ""
    status: str = ""
    error: str = ""
    # The (step, role) pairs that were known: what else is observed came late.
    basis: tuple[str, ...] = ()
    # What a fact that comes late must not change any more.
    started_at: datetime | None = None
    aggregate_id: str | None = None

    def detail(self) -> str:
        said = {
            "cause": self.cause,
            "status": self.status,
            "error": self.error,
            "basis": list(self.basis),
            "started_at": self.started_at and self.started_at.isoformat(),
            "aggregate_id": self.aggregate_id,
        }
        return json.dumps(said, ensure_ascii=False)

    @classmethod
    def of(cls, fact: Fact) -> Decision:
        said: dict[str, Any] = json.loads(fact.detail)
        return cls(
            fact.role,
            fact.step,
            said["cause"],
            said["status"],
            said["error"],
            tuple(said["basis"]),
            datetime.fromisoformat(said["started_at"]),
            said["aggregate_id"],
        )


@dataclass(frozen=True, slots=True)
class Effect:
    """An event to be published, once."""

    kind: str
    step: str


@dataclass(frozen=True, slots=True)
class Due:
    """What will be decided when the deadline has passed and nothing else has happened."""

    at: datetime
    cause: str
    step: str = ""


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
    # Why it began to fail; the error message may be about what came of that.
    failing_error: str = ""
    # A fact came when the saga had ended, or was said of one of which it cannot be true.
    anomaly: str = ""
    # Something is left that only a person can put right.
    needs_operator: bool = False
    # A person has had a hand in it.
    by_hand: bool = False
    # When the failing was observed; decided when compensation_started_at or completed_at says.
    failed_at: datetime | None = None
    due: Due | None = None
    # To be decided now.
    next: Decision | None = None
    decisions: int = 0
    # To be published, in this order; those that were are no longer here.
    effects: tuple[Effect, ...] = ()

    @property
    def deadline(self) -> datetime | None:
        return self.due.at if self.due else None
