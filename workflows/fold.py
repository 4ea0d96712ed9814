"""What has become of a saga: a pure function of its facts, in whatever order and however often they are given.

The hub's own decisions are facts too, numbered 1, 2 in the order in which they were taken: the first either ends the
saga or makes it fail, the second ends one that failed. Everything else is a set, and a set has no order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .definition import Definition, Step
from .words import (
    CAUSE_CLOSED,
    CAUSE_FAILED,
    CAUSE_TIMED_OUT,
    CAUSE_UNDO_FAILED,
    CAUSE_UNDO_OVERDUE,
    CAUSE_UNSEEN,
    CLOSED,
    COMPENSATED,
    COMPENSATING,
    COMPLETED,
    DECIDED,
    DONE,
    EMITTED,
    ENDED,
    FAILED,
    FAILING,
    FAILURE,
    FINISHED,
    IN_PROGRESS,
    OBSERVED,
    OPERATOR,
    RETRIED,
    RUNNING,
    SAGA_COMPENSATION_REQUESTED,
    SAGA_COMPLETED,
    SAGA_FAILED,
    SAGA_TIMED_OUT,
    STARTED,
    STEP_DONE,
    STEP_FAILED,
    STEP_ROLES,
    STEP_TIMED_OUT,
    STEP_UNDO_FAILED,
    STEP_UNDONE,
    UNDO_FAILED,
    UNDOING,
    UNDONE,
    WAITING,
)

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


@dataclass
class _Known:
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
        # A step that was undone already is on its way back: what made it so is yet to be told.
        return all(self.has(step.key, DONE) and not self.is_undone(step.key) for step in self.definition.required)

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


def fold(definition: Definition, facts: Iterable[Fact]) -> State:
    """There must be at least one fact that was observed."""
    known = _Known(definition)
    for fact in facts:
        known.add(fact)
    decided = [known.decided[no] for no in sorted(known.decided)]
    failing = next((each for each in decided if each[0].role == FAILING), None)
    ended = known.ended()
    started_at = (ended and ended[0].started_at) or known.started_at()
    status = ended[0].status if ended else (COMPENSATING if failing else IN_PROGRESS)
    steps = _steps(known, status, [decision for decision, _ in decided])
    due = None if ended else _due(known, started_at, failing[1] if failing else None, steps)
    at_fault = (failing or ended or (None, None))[0]
    error = next((decision.error for decision, _ in reversed(decided) if decision.error), "")
    failures = known.failures()
    return State(
        status=status,
        current_step=_current(known, status, steps, at_fault),
        started_at=started_at,
        steps=steps,
        completed_at=ended[1] if ended else None,
        compensation_started_at=failing[1] if failing else None,
        error_message=error,
        failing_error=failing[0].error if failing else "",
        aggregate_id=ended[0].aggregate_id if ended else known.aggregate_id(),
        anomaly=_anomaly(known, ended[0] if ended else None),
        needs_operator=_needs_operator(known, ended[0]) if ended else False,
        by_hand=known.by_hand,
        failed_at=failures[0][0] if failures else None,
        due=due,
        next=_next(known, bool(failing), bool(ended)),
        decisions=len(decided),
        effects=tuple(each for each in _effects(known, decided, status) if each not in known.emitted),
    )


def expire(definition: Definition, facts: Iterable[Fact], now: datetime) -> Decision | None:
    """The decision that the passing of time calls for, if nothing else does and it has passed."""
    known = _Known(definition)
    for fact in facts:
        known.add(fact)
    state = fold(definition, facts)
    due = state.due
    if due is None or state.next is not None or now < due.at:
        return None
    if due.cause == CAUSE_UNDO_OVERDUE:
        left = ", ".join(step.key for step in known.outstanding())
        return known.decide(ENDED, due.step, due.cause, FAILED, f"compensation is overdue: {left}")
    if due.cause == CAUSE_UNSEEN:
        # What was seen of it may be the tail of a saga that went well: nobody is told to undo anything.
        error = "its start was never seen; nothing was asked to be undone"
        return known.decide(ENDED, "", CAUSE_UNSEEN, FAILED, error)
    what = f"step {due.step}" if due.step else "the saga"
    return _failing(known, due.step, CAUSE_TIMED_OUT, f"{what} has timed out")


def _next(known: _Known, failing: bool, ended: bool) -> Decision | None:
    if ended:
        return None
    if known.has("", CLOSED):
        error = known.reason("", CLOSED) or "closed by an operator"
        return known.decide(ENDED, "", CAUSE_CLOSED, FAILED, error)
    if not failing:
        failures = known.failures()
        if failures:
            step = failures[0][1]
            said = known.reason(step, FAILURE) or (f"step {step} failed" if step else "the saga failed")
            return _failing(known, step, CAUSE_FAILED, said)
        return known.decide(ENDED, "", "", COMPLETED, "") if known.is_complete() else None
    outstanding = known.outstanding()
    refused = [step.key for step in outstanding if known.has(step.key, UNDO_FAILED)]
    if refused:
        said = known.reason(refused[0], UNDO_FAILED)
        error = f"compensation of step {refused[0]} failed" + (f": {said}" if said else "")
        return known.decide(ENDED, refused[0], CAUSE_UNDO_FAILED, FAILED, error)
    return None if outstanding else known.decide(ENDED, "", "", COMPENSATED, "")


def _failing(known: _Known, step: str, cause: str, error: str) -> Decision:
    if known.to_undo():
        return known.decide(FAILING, step, cause, "", error)
    return known.decide(ENDED, step, cause, FAILED, error)


def _due(known: _Known, started_at: datetime, failing_at: datetime | None, steps: Mapping[str, str]) -> Due | None:
    definition = known.definition
    if failing_at is not None:
        return Due(failing_at + definition.compensation_timeout, CAUSE_UNDO_OVERDUE)
    if not known.start_was_seen():
        return Due(started_at + definition.timeout, CAUSE_UNSEEN)
    dues = [Due(started_at + definition.timeout, CAUSE_TIMED_OUT)]
    for step in definition.required:
        if step.timeout is None or steps[step.key] != RUNNING:
            continue
        # Its time runs from the moment at which the last of those before it was done.
        ready_at = max((at for key in step.after if (at := known.done_at(key))), default=started_at)
        dues.append(Due(ready_at + step.timeout, CAUSE_TIMED_OUT, step.key))
    return min(dues, key=lambda due: (due.at, due.step))


def _steps(known: _Known, status: str, decided: list[Decision]) -> dict[str, str]:
    timed_out = {decision.step for decision in decided if decision.cause == CAUSE_TIMED_OUT}
    undo = {step.key for step in known.to_undo()} if _is_undoing(status, decided) else set[str]()
    found = {}
    for step in known.definition.steps:
        key = step.key
        if known.has(key, UNDONE) or (key in undo and known.is_undone(key)):
            found[key] = STEP_UNDONE
        elif known.has(key, UNDO_FAILED):
            found[key] = STEP_UNDO_FAILED
        elif key in undo:
            found[key] = UNDOING
        elif known.has(key, DONE):
            found[key] = STEP_DONE
        elif known.has(key, FAILURE):
            found[key] = STEP_FAILED
        elif key in timed_out:
            found[key] = STEP_TIMED_OUT
        elif status == IN_PROGRESS and all(known.has(before, DONE) for before in step.after):
            found[key] = RUNNING
        else:
            found[key] = WAITING
    return found


def _is_undoing(status: str, decided: list[Decision]) -> bool:
    """Whether what was done is asked to be undone: not after a success, not once a person has taken over, nor where
    too little is known."""
    return status not in (IN_PROGRESS, COMPLETED) and all(
        each.cause not in (CAUSE_CLOSED, CAUSE_UNSEEN) for each in decided
    )


def _effects(known: _Known, decided: list[tuple[Decision, datetime]], status: str) -> Iterable[Effect]:
    decisions = [decision for decision, _ in decided]
    for decision in decisions:
        if decision.cause == CAUSE_TIMED_OUT:
            yield Effect(SAGA_TIMED_OUT, decision.step)
    if _is_undoing(status, decisions):
        for step in known.outstanding():
            yield Effect(SAGA_COMPENSATION_REQUESTED, step.key)
    if status == COMPLETED:
        yield Effect(SAGA_COMPLETED, "")
    elif status in (FAILED, COMPENSATED):
        yield Effect(SAGA_FAILED, "")


def _current(known: _Known, status: str, steps: Mapping[str, str], at_fault: Decision | None) -> str:
    """The step that is waited for, or at which it ended."""
    ordered = known.definition.in_order
    if status == IN_PROGRESS:
        open_steps = [step.key for step in ordered if not step.optional and steps[step.key] in (RUNNING, WAITING)]
        return open_steps[0] if open_steps else ordered[-1].key
    if status == COMPENSATING:
        left = known.outstanding()
        return left[0].key if left else ""
    if status == COMPLETED:
        return [step for step in ordered if not step.optional][-1].key
    return at_fault.step if at_fault else ""


def _needs_operator(known: _Known, ended: Decision) -> bool:
    if ended.status == COMPLETED or known.has("", CLOSED):
        return False
    return ended.cause == CAUSE_UNSEEN or bool(known.outstanding())


def _anomaly(known: _Known, ended: Decision | None) -> str:
    late = _late(known, ended) if ended else []
    if known.has("", UNDONE) and not known.all_can_be_undone() and (not ended or f":{UNDONE}" in ended.basis):
        late.append(f"saga {UNDONE} before anything had failed")
    return "; ".join(late)[:TEXT_LENGTH]


def _late(known: _Known, ended: Decision) -> list[str]:
    late = []
    for step, role in sorted(known.seen):
        if f"{step}:{role}" in ended.basis or role in (STARTED, CLOSED, RETRIED):
            continue
        given = known.definition.by_key.get(step)
        if given is not None and given.optional and ended.status == COMPLETED:
            continue
        # A success told late of a saga that a service has declared complete is what everybody expected.
        if role in (DONE, FINISHED) and ended.status == COMPLETED:
            continue
        # The answer to a request that a late success called for.
        if role in STEP_ROLES[2:] and f"{step}:{DONE}" not in ended.basis and known.has(step, DONE):
            continue
        late.append(f"{step or 'saga'} {role} after the end")
    return late
