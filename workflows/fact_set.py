"""The facts of one run as a set, and what follows from them without a decision."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from . import state
from .definition import Definition, Step
from .state import TEXT_LENGTH, Decision, Effect, Fact, UnreadableFact


class FactSet:
    def __init__(self, definition: Definition, facts: Iterable[Fact]) -> None:
        """Raises UnreadableFact."""
        self.definition = definition
        # (step, role) → when it was first observed.
        self.seen: dict[tuple[str, str], datetime] = {}
        self.emitted: set[Effect] = set()
        self.by_hand = False
        # The last time that a fact reported everything as undone.
        self._all_undone_at: datetime | None = None
        self._reasons: dict[tuple[str, str], tuple[datetime, str]] = {}
        self._aggregates: list[tuple[datetime, str]] = []
        decisions: dict[int, Decision] = {}
        for fact in facts:
            if fact.role == state.EMITTED:
                self.emitted.add(Effect(fact.detail, fact.step))
            elif fact.role in state.DECIDED:
                decisions[fact.decision_no or 0] = Decision.read(fact.role, fact.step, fact.detail, fact.at)
            elif fact.role in state.OBSERVED:
                self._observe(fact)
            else:
                raise UnreadableFact(f"a fact has the role {fact.role}")
        self.decisions = [decisions[number] for number in sorted(decisions)]
        self.failing = self._decision(state.FAILING)
        self.ended = self._decision(state.ENDED)

    def _observe(self, fact: Fact) -> None:
        pair = (fact.step, fact.role)
        self.seen[pair] = min(self.seen.get(pair, fact.at), fact.at)
        if pair == ("", state.UNDONE):
            self._all_undone_at = max(self._all_undone_at or fact.at, fact.at)
        self.by_hand |= fact.origin == state.OPERATOR
        if fact.detail:
            reason = (fact.at, fact.detail)
            self._reasons[pair] = min(self._reasons.get(pair, reason), reason)
        if fact.aggregate_id:
            self._aggregates.append((fact.at, fact.aggregate_id))

    def _decision(self, role: str) -> Decision | None:
        return next((decision for decision in self.decisions if decision.role == role), None)

    def decide(self, role: str, step: str, cause: str, status: str, error: str) -> Decision:
        """A new decision, based on all facts."""
        pairs = [*self.seen, *((step, state.DONE) for step in self._presumed())]
        basis = tuple(sorted(f"{step}:{role}" for step, role in pairs))
        return Decision(role, step, cause, status, error[:TEXT_LENGTH], basis, self.started_at(), self.aggregate_id())

    def has(self, step: str, role: str) -> bool:
        return (step, role) in self.seen

    def done_at(self, step: str) -> datetime | None:
        return self.seen.get((step, state.DONE))

    def started_at(self) -> datetime:
        return min(self.seen.values())

    def start_was_seen(self) -> bool:
        return not self.definition.start_facts.isdisjoint(self.seen)

    def aggregate_id(self) -> str | None:
        return min(self._aggregates)[1] if self._aggregates else None

    def reason(self, step: str, role: str) -> str:
        """The first reason that was given for it."""
        _at, reason = self._reasons.get((step, role), (None, ""))
        return reason[:TEXT_LENGTH]

    def failures(self) -> list[tuple[datetime, str]]:
        """(time, step) of each failure, the earliest first. A failure of the whole run has no step."""
        needed = {step.key for step in self.definition.required} | {""}
        return sorted((at, step) for (step, role), at in self.seen.items() if role == state.FAILURE and step in needed)

    def is_complete(self) -> bool:
        if self.has("", state.FINISHED):
            return True
        required = [step.key for step in self.definition.required]
        # A step that was undone, or could not be, means that a failure is still to be reported.
        return all(self.has(step, state.DONE) for step in required) and not any(
            self.is_undone(step) or self.has(step, state.UNDO_FAILED) for step in required
        )

    def to_undo(self) -> list[Step]:
        """Steps that were done and can be undone, including those already undone; the last step first."""
        done = {step for step, role in self.seen if role == state.DONE} | self._presumed()
        return [step for step in reversed(self.definition.in_order) if step.key in done and step.can_be_undone]

    def outstanding(self) -> list[Step]:
        return [step for step in self.to_undo() if not self.is_undone(step.key)]

    def is_undone(self, step: str) -> bool:
        return self.has(step, state.UNDONE) or self._is_undone_with_all(step)

    def all_can_be_undone(self) -> bool:
        """Whether the run had failed when everything was last reported as undone."""
        undone_at = self._all_undone_at
        times = [at for at, _ in self.failures()]
        times += [decision.at for decision in self.decisions if decision.at and decision.status != state.COMPLETED]
        return undone_at is not None and any(at <= undone_at for at in times)

    def _is_undone_with_all(self, step: str) -> bool:
        """A "compensated" fact about the whole run covers each step that was done by then.

        It does not cover steps done later, nor steps that became known only after the end: these were not requested.
        """
        undone_at = self._all_undone_at
        if undone_at is None or not self.all_can_be_undone():
            return False
        done_by = self._done_by(step)
        if done_by is None or undone_at < done_by:
            return False
        ended = self.ended
        return ended is None or ended.at is None or f"{step}:{state.DONE}" in ended.basis or undone_at > ended.at

    def _done_by(self, step: str) -> datetime | None:
        """When the step was done at the latest: the first fact that says or implies it."""
        own, later = (state.DONE, state.UNDONE, state.UNDO_FAILED), self.definition.ancestors
        times = (
            at
            for (key, role), at in self.seen.items()
            if (key == step and role in own) or (role in state.STEP_ROLES and step in later.get(key, ()))
        )
        return min(times, default=None)

    def _presumed(self) -> set[str]:
        """Steps that must have been done although no fact says so yet: a later step, which needs them, has facts.

        Events arrive in any order, and what a failure undoes must not depend on it.
        """
        steps = self.definition.by_key
        facts = [(step, role) for step, role in self.seen if step in steps and role in state.STEP_ROLES]
        implied = set[str]().union(*(self.definition.ancestors[step] for step, _ in facts))
        undone = {step for step, role in facts if role in (state.UNDONE, state.UNDO_FAILED)}
        return {step for step in implied | undone if not self.has(step, state.DONE)}
