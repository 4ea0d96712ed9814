"""The state of a run: a pure function of the set of its facts. Order and repetition do not matter.

The hub's decisions are facts too, numbered 1 and 2: the first ends the run or makes it fail, the second ends a failed
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from .definition import Definition
from .fact_set import FactSet
from .state import (
    CLOSED,
    COMPENSATED,
    COMPENSATING,
    COMPLETED,
    DONE,
    ENDED,
    FAILED,
    FAILING,
    FAILURE,
    FINISHED,
    IN_PROGRESS,
    RETRIED,
    RUNNING,
    SAGA_COMPENSATION_REQUESTED,
    SAGA_COMPLETED,
    SAGA_FAILED,
    SAGA_TIMED_OUT,
    START_UNSEEN,
    STARTED,
    TEXT_LENGTH,
    TIMED_OUT,
    UNDO_FAILED,
    UNDO_OVERDUE,
    UNDOING,
    UNDONE,
    WAITING,
    Decision,
    Due,
    Effect,
    Fact,
    State,
)


def fold(definition: Definition, facts: Iterable[Fact]) -> State:
    """There must be at least one observed fact."""
    fact_set = FactSet(definition, facts)
    failing, ended = fact_set.failing, fact_set.ended
    started_at = ended.started_at if ended else fact_set.started_at()
    status = ended.status if ended else (COMPENSATING if failing else IN_PROGRESS)
    steps = _steps(fact_set, status)
    failures = fact_set.failures()
    return State(
        status=status,
        current_step=_current(fact_set, status, steps),
        started_at=started_at,
        steps=steps,
        completed_at=ended.at if ended else None,
        compensation_started_at=failing.at if failing else None,
        error_message=next((decision.error for decision in reversed(fact_set.decisions) if decision.error), ""),
        failing_error=failing.error if failing else "",
        aggregate_id=ended.aggregate_id if ended else fact_set.aggregate_id(),
        anomaly=_anomaly(fact_set),
        needs_operator=_needs_operator(fact_set),
        by_hand=fact_set.by_hand,
        failed_at=failures[0][0] if failures else None,
        due=None if ended else _due(fact_set, started_at, steps),
        next=None if ended else _next(fact_set),
        decisions=len(fact_set.decisions),
        effects=tuple(effect for effect in _effects(fact_set, status) if effect not in fact_set.emitted),
    )


def expire(definition: Definition, facts: Iterable[Fact], now: datetime) -> Decision | None:
    """The decision to take when the deadline has passed; None if it has not, or another decision is due first."""
    state = fold(definition, facts)
    due = state.due
    if due is None or state.next is not None or now < due.at:
        return None
    fact_set = FactSet(definition, facts)
    if due.cause == UNDO_OVERDUE:
        left = ", ".join(step.key for step in fact_set.outstanding())
        return fact_set.decide(ENDED, due.step, due.cause, FAILED, f"compensation is overdue: {left}")
    if due.cause == START_UNSEEN:
        # These facts may be the end of a successful run, so nothing is compensated.
        error = "its start was never seen; no compensation was requested"
        return fact_set.decide(ENDED, "", START_UNSEEN, FAILED, error)
    what = f"step {due.step}" if due.step else "the run"
    return _fail(fact_set, due.step, TIMED_OUT, f"{what} has timed out")


def _next(facts: FactSet) -> Decision | None:
    if facts.has("", CLOSED):
        error = facts.reason("", CLOSED) or "closed by an operator"
        return facts.decide(ENDED, "", CLOSED, FAILED, error)
    if not facts.failing:
        failures = facts.failures()
        if failures:
            step = failures[0][1]
            error = facts.reason(step, FAILURE) or (f"step {step} failed" if step else "the run failed")
            return _fail(facts, step, FAILURE, error)
        return facts.decide(ENDED, "", "", COMPLETED, "") if facts.is_complete() else None
    outstanding = facts.outstanding()
    refused = [step.key for step in outstanding if facts.has(step.key, UNDO_FAILED)]
    if refused:
        reason = facts.reason(refused[0], UNDO_FAILED)
        error = f"compensation of step {refused[0]} failed" + (f": {reason}" if reason else "")
        return facts.decide(ENDED, refused[0], UNDO_FAILED, FAILED, error)
    return None if outstanding else facts.decide(ENDED, "", "", COMPENSATED, "")


def _fail(facts: FactSet, step: str, cause: str, error: str) -> Decision:
    if facts.to_undo():
        return facts.decide(FAILING, step, cause, "", error)
    return facts.decide(ENDED, step, cause, FAILED, error)


def _due(facts: FactSet, started_at: datetime, steps: Mapping[str, str]) -> Due:
    definition = facts.definition
    if facts.failing and facts.failing.at:
        return Due(facts.failing.at + definition.compensation_timeout, UNDO_OVERDUE)
    if not facts.start_was_seen():
        return Due(started_at + definition.timeout, START_UNSEEN)
    dues = [Due(started_at + definition.timeout, TIMED_OUT)]
    for step in definition.required:
        if step.timeout is not None and steps[step.key] == RUNNING:
            # Its time runs from when the last of its predecessors was done.
            ready_at = max((at for key in step.after if (at := facts.done_at(key))), default=started_at)
            dues.append(Due(ready_at + step.timeout, TIMED_OUT, step.key))
    return min(dues, key=lambda due: (due.at, due.step))


def _steps(facts: FactSet, status: str) -> dict[str, str]:
    timed_out = {decision.step for decision in facts.decisions if decision.cause == TIMED_OUT}
    undo = {step.key for step in facts.to_undo()} if _is_undoing(facts, status) else set[str]()
    states = {}
    for step in facts.definition.steps:
        key = step.key
        if facts.has(key, UNDONE) or (key in undo and facts.is_undone(key)):
            states[key] = UNDONE
        elif facts.has(key, UNDO_FAILED):
            states[key] = UNDO_FAILED
        elif key in undo:
            states[key] = UNDOING
        elif facts.has(key, DONE):
            states[key] = DONE
        elif facts.has(key, FAILURE):
            states[key] = FAILURE
        elif key in timed_out:
            states[key] = TIMED_OUT
        elif status == IN_PROGRESS and all(facts.has(before, DONE) for before in step.after):
            states[key] = RUNNING
        else:
            states[key] = WAITING
    return states


def _is_undoing(facts: FactSet, status: str) -> bool:
    """Whether done steps are compensated: not after success, after an operator closed the run, or without a start."""
    return status not in (IN_PROGRESS, COMPLETED) and all(
        decision.cause not in (CLOSED, START_UNSEEN) for decision in facts.decisions
    )


def _effects(facts: FactSet, status: str) -> Iterable[Effect]:
    for decision in facts.decisions:
        if decision.cause == TIMED_OUT:
            yield Effect(SAGA_TIMED_OUT, decision.step)
    if _is_undoing(facts, status):
        for step in facts.outstanding():
            yield Effect(SAGA_COMPENSATION_REQUESTED, step.key)
    if status == COMPLETED:
        yield Effect(SAGA_COMPLETED, "")
    elif status in (FAILED, COMPENSATED):
        yield Effect(SAGA_FAILED, "")


def _current(facts: FactSet, status: str, steps: Mapping[str, str]) -> str:
    """The step that the run waits for, or at which it ended."""
    required = [step.key for step in facts.definition.in_order if not step.optional]
    if status == IN_PROGRESS:
        awaited = [step for step in required if steps[step] in (RUNNING, WAITING)]
        # Or a step that was undone before any failure was reported.
        undone = [step for step in required if steps[step] != DONE]
        return (awaited or undone or required[-1:])[0]
    if status == COMPENSATING:
        outstanding = facts.outstanding()
        return outstanding[0].key if outstanding else ""
    # The first decision names the step that failed.
    return required[-1] if status == COMPLETED else facts.decisions[0].step


def _needs_operator(facts: FactSet) -> bool:
    ended = facts.ended
    if ended is None or ended.status == COMPLETED or facts.has("", CLOSED):
        return False
    return ended.cause == START_UNSEEN or bool(facts.outstanding())


def _anomaly(facts: FactSet) -> str:
    ended = facts.ended
    late = _late(facts, ended) if ended else []
    if facts.has("", UNDONE) and not facts.all_can_be_undone() and (not ended or f":{UNDONE}" in ended.basis):
        late.append(f"run {UNDONE} before anything had failed")
    return "; ".join(late)[:TEXT_LENGTH]


def _late(facts: FactSet, ended: Decision) -> list[str]:
    late = []
    for step, role in sorted(facts.seen):
        if f"{step}:{role}" in ended.basis or role in (STARTED, CLOSED, RETRIED):
            continue
        declared = facts.definition.by_key.get(step)
        if declared is not None and declared.optional and ended.status == COMPLETED:
            continue
        # A service may declare a run complete before its last steps are reported.
        if role in (DONE, FINISHED) and ended.status == COMPLETED:
            continue
        # The reply to a request that a late success caused.
        if role in (UNDONE, UNDO_FAILED) and f"{step}:{DONE}" not in ended.basis and facts.has(step, DONE):
            continue
        late.append(f"{step or 'run'} {role} after the end")
    return late
