"""The facts of one saga, and what follows from them before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from .definition import Definition, Step
from .state import TEXT_LENGTH, Decision, Effect, Fact
from .words import (
    COMPLETED,
    DECIDED,
    DONE,
    EMITTED,
    ENDED,
    FAILURE,
    FINISHED,
    OBSERVED,
    OPERATOR,
    STEP_ROLES,
    UNDO_FAILED,
    UNDONE,
)


@dataclass
class Known:
    """The facts, sorted into what is asked of them."""

    definition: Definition
    # (step, role) → when it was first observed.
    seen: dict[tuple[str, str], datetime] = field(default_factory=dict)
    reasons: dict[tuple[str, str], list[tuple[datetime, str]]] = field(default_factory=dict)
    decided: dict[int, tuple[Decision, datetime]] = field(default_factory=dict)
    emitted: set[Effect] = field(default_factory=set)
    aggregates: list[tuple[datetime, str]] = field(default_factory=list)
    # When it was last said that everything is undone.
    all_undone_at: datetime | None = None
    by_hand: bool = False

    def add(self, fact: Fact) -> None:
        if fact.role == EMITTED:
            self.emitted.add(Effect(fact.detail, fact.step))
        elif fact.role in DECIDED:
            assert fact.decision_no is not None
            self.decided[fact.decision_no] = (Decision.of(fact), fact.at)
        else:
            assert fact.role in OBSERVED, fact.role
            pair = (fact.step, fact.role)
            self.seen[pair] = min(self.seen.get(pair, fact.at), fact.at)
            if pair == ("", UNDONE):
                self.all_undone_at = max(self.all_undone_at or fact.at, fact.at)
            self.by_hand |= fact.origin == OPERATOR
            if fact.detail:
                self.reasons.setdefault(pair, []).append((fact.at, fact.detail))
            if fact.aggregate_id:
                self.aggregates.append((fact.at, fact.aggregate_id))

    def has(self, step: str, role: str) -> bool:
        return (step, role) in self.seen

    def done_at(self, step: str) -> datetime | None:
        return self.seen.get((step, DONE))

    def presumed(self) -> set[str]:
        """Steps that must have been done though nobody said so yet: a later step, which needs them, was tried.

        Events come in any order; what a failure undoes must not depend on it.
        """
        tried = {step for step, role in self.seen if step and role in (DONE, FAILURE, UNDONE, UNDO_FAILED)}
        implied = set[str]().union(*(self.definition.ancestors[step] for step in tried if self._known_step(step)))
        undone = {step for step, role in self.seen if role in (UNDONE, UNDO_FAILED) and self._known_step(step)}
        return {step for step in implied | undone if not self.has(step, DONE)}

    def _known_step(self, step: str) -> bool:
        return step in self.definition.by_key

    def is_undone(self, step: str) -> bool:
        return self.has(step, UNDONE) or self._is_undone_with_all(step)

    def _is_undone_with_all(self, step: str) -> bool:
        """ "All is compensated", said of the saga as a whole, is said of each step that was done by then.

        It is not said of what was done afterwards, nor of what came to be known only after the end: nobody was asked to
        undo that.
        """
        said_at = self.all_undone_at
        if said_at is None or not self.all_can_be_undone():
            return False
        done_by = self._done_by(step)
        if done_by is None or said_at < done_by:
            return False
        ended = self.ended()
        return ended is None or f"{step}:{DONE}" in ended[0].basis or said_at > ended[1]

    def all_can_be_undone(self) -> bool:
        """Whether it had failed when everything was last said to be undone. Of one that goes well it means nothing."""
        failed = [at for at, _ in self.failures()]
        decided = [at for decision, at in self.decided.values() if decision.status != COMPLETED]
        return self.all_undone_at is not None and any(at <= self.all_undone_at for at in (*failed, *decided))

    def _done_by(self, step: str) -> datetime | None:
        """When it had been done: the first fact that says so, or that could not be without it."""
        own, later = (DONE, UNDONE, UNDO_FAILED), self.definition.ancestors
        times = (
            at
            for (key, role), at in self.seen.items()
            if (key == step and role in own) or (role in STEP_ROLES and step in later.get(key, ()))
        )
        return min(times, default=None)

    def ended(self) -> tuple[Decision, datetime] | None:
        return next((each for _, each in sorted(self.decided.items()) if each[0].role == ENDED), None)

    def to_undo(self) -> list[Step]:
        """Steps that were done and can be undone, whether they have been or not; the last one first."""
        done = {step for step, role in self.seen if role == DONE} | self.presumed()
        return [step for step in reversed(self.definition.in_order) if step.key in done and step.can_be_undone]

    def outstanding(self) -> list[Step]:
        return [step for step in self.to_undo() if not self.is_undone(step.key)]

    def failures(self) -> list[tuple[datetime, str]]:
        """(when, step) of what made it fail, the first first; a failure of the saga as a whole has no step."""
        needed = {step.key for step in self.definition.required} | {""}
        return sorted((at, step) for (step, role), at in self.seen.items() if role == FAILURE and step in needed)

    def is_complete(self) -> bool:
        if self.has("", FINISHED):
            return True
        needed = (step.key for step in self.definition.required)
        return all(self.has(step, DONE) and not self._is_on_its_way_back(step) for step in needed)

    def _is_on_its_way_back(self, step: str) -> bool:
        """What made it so may be yet to be told."""
        return self.is_undone(step) or self.has(step, UNDO_FAILED)

    def reason(self, step: str, role: str) -> str:
        reasons = self.reasons.get((step, role))
        return min(reasons)[1][:TEXT_LENGTH] if reasons else ""

    def start_was_seen(self) -> bool:
        return not self.definition.start_facts.isdisjoint(self.seen)

    def started_at(self) -> datetime:
        return min(self.seen.values())

    def aggregate_id(self) -> str | None:
        return min(self.aggregates)[1] if self.aggregates else None

    def decide(self, role: str, step: str, cause: str, status: str, error: str) -> Decision:
        pairs = [*self.seen, *((step, DONE) for step in self.presumed())]
        basis = tuple(sorted(f"{step}:{role}" for step, role in pairs))
        return Decision(role, step, cause, status, error[:TEXT_LENGTH], basis, self.started_at(), self.aggregate_id())
