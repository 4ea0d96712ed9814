"""The facts of one run as a set, and what follows from them without a decision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from .definition import Definition, Step
from .state import (
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
    TEXT_LENGTH,
    UNDO_FAILED,
    UNDONE,
    Decision,
    Effect,
    Fact,
)


@dataclass
class FactSet:
    definition: Definition
    # (step, role) → when it was first observed.
    seen: dict[tuple[str, str], datetime] = field(default_factory=dict)
    reasons: dict[tuple[str, str], list[tuple[datetime, str]]] = field(default_factory=dict)
    decided: dict[int, tuple[Decision, datetime]] = field(default_factory=dict)
    emitted: set[Effect] = field(default_factory=set)
    aggregates: list[tuple[datetime, str]] = field(default_factory=list)
    # The last time that a fact reported everything as undone.
    all_undone_at: datetime | None = None
    by_hand: bool = False

    @classmethod
    def of(cls, definition: Definition, facts: Iterable[Fact]) -> FactSet:
        result = cls(definition)
        for fact in facts:
            result._add(fact)
        return result

    def _add(self, fact: Fact) -> None:
        if fact.role == EMITTED:
            self.emitted.add(Effect(fact.detail, fact.step))
        elif fact.role in DECIDED:
            assert fact.decision_no is not None
            self.decided[fact.decision_no] = (Decision.of(fact.role, fact.step, fact.detail), fact.at)
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
        """Steps that must have been done although no fact says so yet: a later step, which needs them, has facts.

        Events arrive in any order, and what a failure undoes must not depend on it.
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
        """A "compensated" fact about the whole run covers each step that was done by then.

        It does not cover steps done later, nor steps that became known only after the end: these were not requested.
        """
        undone_at = self.all_undone_at
        if undone_at is None or not self.all_can_be_undone():
            return False
        done_by = self._done_by(step)
        if done_by is None or undone_at < done_by:
            return False
        ended = self.ended()
        return ended is None or f"{step}:{DONE}" in ended[0].basis or undone_at > ended[1]

    def all_can_be_undone(self) -> bool:
        """Whether the run had failed when everything was last reported as undone."""
        failed = [at for at, _ in self.failures()]
        decided = [at for decision, at in self.decided.values() if decision.status != COMPLETED]
        return self.all_undone_at is not None and any(at <= self.all_undone_at for at in (*failed, *decided))

    def _done_by(self, step: str) -> datetime | None:
        """When the step was done at the latest: the first fact that says or implies it."""
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
        """Steps that were done and can be undone, including those already undone; the last step first."""
        done = {step for step, role in self.seen if role == DONE} | self.presumed()
        return [step for step in reversed(self.definition.in_order) if step.key in done and step.can_be_undone]

    def outstanding(self) -> list[Step]:
        return [step for step in self.to_undo() if not self.is_undone(step.key)]

    def failures(self) -> list[tuple[datetime, str]]:
        """(time, step) of each failure, the earliest first. A failure of the whole run has no step."""
        needed = {step.key for step in self.definition.required} | {""}
        return sorted((at, step) for (step, role), at in self.seen.items() if role == FAILURE and step in needed)

    def is_complete(self) -> bool:
        if self.has("", FINISHED):
            return True
        needed = (step.key for step in self.definition.required)
        # A step that was undone, or could not be, means that a failure is still to be reported.
        return all(
            self.has(step, DONE) and not self.is_undone(step) and not self.has(step, UNDO_FAILED) for step in needed
        )

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
