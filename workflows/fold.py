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
    STARTED,
    STEP_DONE,
    STEP_FAILED,
    STEP_ROLES,
    STEP_TIMED_OUT,
    STEP_UNDO_FAILED,
    STEP_UNDONE,
    TEXT_LENGTH,
    UNDO_FAILED,
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
    known = FactSet.of(definition, facts)
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
    """The decision to take when the deadline has passed; None if it has not, or another decision is due first."""
    known = FactSet.of(definition, facts)
    state = fold(definition, facts)
    due = state.due
    if due is None or state.next is not None or now < due.at:
        return None
    if due.cause == CAUSE_UNDO_OVERDUE:
        left = ", ".join(step.key for step in known.outstanding())
        return known.decide(ENDED, due.step, due.cause, FAILED, f"compensation is overdue: {left}")
    if due.cause == CAUSE_UNSEEN:
        # These facts may be the end of a successful run, so nothing is compensated.
        error = "its start was never seen; no compensation was requested"
        return known.decide(ENDED, "", CAUSE_UNSEEN, FAILED, error)
    what = f"step {due.step}" if due.step else "the run"
    return _failing(known, due.step, CAUSE_TIMED_OUT, f"{what} has timed out")


def _next(known: FactSet, failing: bool, ended: bool) -> Decision | None:
    if ended:
        return None
    if known.has("", CLOSED):
        error = known.reason("", CLOSED) or "closed by an operator"
        return known.decide(ENDED, "", CAUSE_CLOSED, FAILED, error)
    if not failing:
        failures = known.failures()
        if failures:
            step = failures[0][1]
            error = known.reason(step, FAILURE) or (f"step {step} failed" if step else "the run failed")
            return _failing(known, step, CAUSE_FAILED, error)
        return known.decide(ENDED, "", "", COMPLETED, "") if known.is_complete() else None
    outstanding = known.outstanding()
    refused = [step.key for step in outstanding if known.has(step.key, UNDO_FAILED)]
    if refused:
        reason = known.reason(refused[0], UNDO_FAILED)
        error = f"compensation of step {refused[0]} failed" + (f": {reason}" if reason else "")
        return known.decide(ENDED, refused[0], CAUSE_UNDO_FAILED, FAILED, error)
    return None if outstanding else known.decide(ENDED, "", "", COMPENSATED, "")


def _failing(known: FactSet, step: str, cause: str, error: str) -> Decision:
    if known.to_undo():
        return known.decide(FAILING, step, cause, "", error)
    return known.decide(ENDED, step, cause, FAILED, error)


def _due(known: FactSet, started_at: datetime, failing_at: datetime | None, steps: Mapping[str, str]) -> Due | None:
    definition = known.definition
    if failing_at is not None:
        return Due(failing_at + definition.compensation_timeout, CAUSE_UNDO_OVERDUE)
    if not known.start_was_seen():
        return Due(started_at + definition.timeout, CAUSE_UNSEEN)
    dues = [Due(started_at + definition.timeout, CAUSE_TIMED_OUT)]
    for step in definition.required:
        if step.timeout is None or steps[step.key] != RUNNING:
            continue
        # Its time runs from when the last of its predecessors was done.
        ready_at = max((at for key in step.after if (at := known.done_at(key))), default=started_at)
        dues.append(Due(ready_at + step.timeout, CAUSE_TIMED_OUT, step.key))
    return min(dues, key=lambda due: (due.at, due.step))


def _steps(known: FactSet, status: str, decided: list[Decision]) -> dict[str, str]:
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
    """Whether done steps are compensated: not after success, after an operator closed the run, or without a start."""
    return status not in (IN_PROGRESS, COMPLETED) and all(
        each.cause not in (CAUSE_CLOSED, CAUSE_UNSEEN) for each in decided
    )


def _effects(known: FactSet, decided: list[tuple[Decision, datetime]], status: str) -> Iterable[Effect]:
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


def _current(known: FactSet, status: str, steps: Mapping[str, str], at_fault: Decision | None) -> str:
    """The step that the run waits for, or at which it ended."""
    ordered = known.definition.in_order
    if status == IN_PROGRESS:
        needed = [step.key for step in ordered if not step.optional]
        awaited = [step for step in needed if steps[step] in (RUNNING, WAITING)]
        # Or a step that was undone before any failure was reported.
        undone = [step for step in needed if steps[step] != STEP_DONE]
        return (awaited or undone or needed[-1:])[0]
    if status == COMPENSATING:
        left = known.outstanding()
        return left[0].key if left else ""
    if status == COMPLETED:
        return [step for step in ordered if not step.optional][-1].key
    return at_fault.step if at_fault else ""


def _needs_operator(known: FactSet, ended: Decision) -> bool:
    if ended.status == COMPLETED or known.has("", CLOSED):
        return False
    return ended.cause == CAUSE_UNSEEN or bool(known.outstanding())


def _anomaly(known: FactSet, ended: Decision | None) -> str:
    late = _late(known, ended) if ended else []
    if known.has("", UNDONE) and not known.all_can_be_undone() and (not ended or f":{UNDONE}" in ended.basis):
        late.append(f"run {UNDONE} before anything had failed")
    return "; ".join(late)[:TEXT_LENGTH]


def _late(known: FactSet, ended: Decision) -> list[str]:
    late = []
    for step, role in sorted(known.seen):
        if f"{step}:{role}" in ended.basis or role in (STARTED, CLOSED, RETRIED):
            continue
        declared = known.definition.by_key.get(step)
        if declared is not None and declared.optional and ended.status == COMPLETED:
            continue
        # A service may declare a run complete before its last steps are reported.
        if role in (DONE, FINISHED) and ended.status == COMPLETED:
            continue
        # The reply to a request that a late success caused.
        if role in STEP_ROLES[2:] and f"{step}:{DONE}" not in ended.basis and known.has(step, DONE):
            continue
        late.append(f"{step or 'run'} {role} after the end")
    return late
