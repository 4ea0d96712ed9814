"""The state of a run: a pure function of the set of its facts. Order and repetition do not matter.

The hub's decisions are facts too, numbered 1 and 2: the first ends the run or makes it fail, the second ends a failed
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from . import state
from .definition import Definition
from .fact_set import FactSet
from .state import TEXT_LENGTH, Decision, Due, Effect, Fact, State


def fold(definition: Definition, facts: Iterable[Fact]) -> State:
    """There must be at least one observed fact. Raises UnreadableFact."""
    fact_set = FactSet(definition, facts)
    failing, ended = fact_set.failing, fact_set.ended
    started_at = ended.started_at if ended else fact_set.started_at()
    status = ended.status if ended else (state.COMPENSATING if failing else state.IN_PROGRESS)
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
        decisions=tuple(fact_set.decisions),
        effects=tuple(effect for effect in _effects(fact_set, status) if effect not in fact_set.emitted),
    )


def expire(definition: Definition, facts: Iterable[Fact], now: datetime) -> Decision | None:
    """The decision to take when the deadline has passed; None if it has not, or another decision is due first."""
    folded = fold(definition, facts)
    due = folded.due
    if due is None or folded.next is not None or now < due.at:
        return None
    fact_set = FactSet(definition, facts)
    if due.cause == state.UNDO_OVERDUE:
        left = ", ".join(step.key for step in fact_set.outstanding())
        return fact_set.decide(state.ENDED, due.step, due.cause, state.FAILED, f"compensation is overdue: {left}")
    if due.cause == state.START_UNSEEN:
        # These facts may be the end of a successful run, so nothing is compensated.
        error = "its start was never seen; no compensation was requested"
        return fact_set.decide(state.ENDED, "", state.START_UNSEEN, state.FAILED, error)
    what = f"step {due.step}" if due.step else "the run"
    return _fail(fact_set, due.step, state.TIMED_OUT, f"{what} has timed out")


def _next(facts: FactSet) -> Decision | None:
    if facts.has("", state.CLOSED):
        error = facts.reason("", state.CLOSED) or "closed by an operator"
        return facts.decide(state.ENDED, "", state.CLOSED, state.FAILED, error)
    if not facts.failing:
        failures = facts.failures()
        if failures:
            step = failures[0][1]
            error = facts.reason(step, state.FAILURE) or (f"step {step} failed" if step else "the run failed")
            return _fail(facts, step, state.FAILURE, error)
        return facts.decide(state.ENDED, "", "", state.COMPLETED, "") if facts.is_complete() else None
    outstanding = facts.outstanding()
    refused = [step.key for step in outstanding if facts.has(step.key, state.UNDO_FAILED)]
    if refused:
        reason = facts.reason(refused[0], state.UNDO_FAILED)
        error = f"compensation of step {refused[0]} failed" + (f": {reason}" if reason else "")
        return facts.decide(state.ENDED, refused[0], state.UNDO_FAILED, state.FAILED, error)
    return None if outstanding else facts.decide(state.ENDED, "", "", state.COMPENSATED, "")


def _fail(facts: FactSet, step: str, cause: str, error: str) -> Decision:
    if facts.to_undo():
        return facts.decide(state.FAILING, step, cause, "", error)
    return facts.decide(state.ENDED, step, cause, state.FAILED, error)


def _due(facts: FactSet, started_at: datetime, steps: Mapping[str, str]) -> Due:
    definition = facts.definition
    if facts.failing and facts.failing.at:
        return Due(facts.failing.at + definition.compensation_timeout, state.UNDO_OVERDUE)
    if not facts.start_was_seen():
        return Due(started_at + definition.timeout, state.START_UNSEEN)
    dues = [Due(started_at + definition.timeout, state.TIMED_OUT)]
    for step in definition.required:
        if step.timeout is not None and steps[step.key] == state.RUNNING:
            # Its time runs from when the last of its predecessors was done.
            ready_at = max((at for key in step.after if (at := facts.done_at(key))), default=started_at)
            dues.append(Due(ready_at + step.timeout, state.TIMED_OUT, step.key))
    return min(dues, key=lambda due: (due.at, due.step))


def _steps(facts: FactSet, status: str) -> dict[str, str]:
    timed_out = {decision.step for decision in facts.decisions if decision.cause == state.TIMED_OUT}
    undo = {step.key for step in facts.to_undo()} if _is_undoing(facts, status) else set[str]()
    states = {}
    for step in facts.definition.steps:
        key = step.key
        if facts.has(key, state.UNDONE) or (key in undo and facts.is_undone(key)):
            states[key] = state.UNDONE
        elif facts.has(key, state.UNDO_FAILED):
            states[key] = state.UNDO_FAILED
        elif key in undo:
            states[key] = state.UNDOING
        elif facts.has(key, state.DONE):
            states[key] = state.DONE
        elif facts.has(key, state.FAILURE):
            states[key] = state.FAILURE
        elif key in timed_out:
            states[key] = state.TIMED_OUT
        elif status == state.IN_PROGRESS and all(facts.has(before, state.DONE) for before in step.after):
            states[key] = state.RUNNING
        else:
            states[key] = state.WAITING
    return states


def _is_undoing(facts: FactSet, status: str) -> bool:
    """Whether done steps are compensated: not after success, after an operator closed the run, or without a start."""
    return status not in (state.IN_PROGRESS, state.COMPLETED) and all(
        decision.cause not in (state.CLOSED, state.START_UNSEEN) for decision in facts.decisions
    )


def _effects(facts: FactSet, status: str) -> Iterable[Effect]:
    for decision in facts.decisions:
        if decision.cause == state.TIMED_OUT:
            yield Effect(state.SAGA_TIMED_OUT, decision.step)
    if _is_undoing(facts, status):
        for step in facts.outstanding():
            yield Effect(state.SAGA_COMPENSATION_REQUESTED, step.key)
    if status == state.COMPLETED:
        yield Effect(state.SAGA_COMPLETED, "")
    elif status in (state.FAILED, state.COMPENSATED):
        yield Effect(state.SAGA_FAILED, "")


def _current(facts: FactSet, status: str, steps: Mapping[str, str]) -> str:
    """The step that the run waits for, or at which it ended."""
    required = [step.key for step in facts.definition.in_order if not step.optional]
    if status == state.IN_PROGRESS:
        awaited = [step for step in required if steps[step] in (state.RUNNING, state.WAITING)]
        # Or a step that was undone before any failure was reported.
        undone = [step for step in required if steps[step] != state.DONE]
        return (awaited or undone or required[-1:])[0]
    if status == state.COMPENSATING:
        outstanding = facts.outstanding()
        return outstanding[0].key if outstanding else ""
    # The first decision names the step that failed.
    return required[-1] if status == state.COMPLETED else facts.decisions[0].step


def _needs_operator(facts: FactSet) -> bool:
    ended = facts.ended
    if ended is None or ended.status == state.COMPLETED or facts.has("", state.CLOSED):
        return False
    return ended.cause == state.START_UNSEEN or bool(facts.outstanding())


def _anomaly(facts: FactSet) -> str:
    ended = facts.ended
    anomalies = _late(facts, ended) if ended else []
    early = not ended or f":{state.UNDONE}" in ended.basis
    if early and facts.has("", state.UNDONE) and not facts.all_can_be_undone():
        anomalies.append(f"run {state.UNDONE} before anything had failed")
    return "; ".join(anomalies)[:TEXT_LENGTH]


def _late(facts: FactSet, ended: Decision) -> list[str]:
    late = []
    for step, role in sorted(facts.seen):
        if f"{step}:{role}" in ended.basis or role in (state.STARTED, state.CLOSED, state.RETRIED):
            continue
        if ended.status == state.COMPLETED:
            declared = facts.definition.by_key.get(step)
            # A service may declare a run complete before its last steps are reported.
            if role in (state.DONE, state.FINISHED) or (declared is not None and declared.optional):
                continue
        # The reply to a request that a late success caused.
        done_late = facts.has(step, state.DONE) and f"{step}:{state.DONE}" not in ended.basis
        if role in (state.UNDONE, state.UNDO_FAILED) and done_late:
            continue
        late.append(f"{step or 'run'} {role} after the end")
    return late
