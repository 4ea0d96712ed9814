"""What services and operators record about runs: the verbs of ADR-025's tracker, and the operators' actions.

Each is a fact with an idempotency key: the same again changes nothing. A tracker folds it soon after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from webhookhub.auditlog import actions
from webhookhub.auditlog import record as auditlog
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_uid
from webhookhub.logs import Log, log
from webhookhub.runner.notifier import notify
from webhookhub.validators import InvalidReason, clean_reason

from . import facts, state, tracked_types, versions
from .definition import Definition
from .facts import MAX_REPEATS, fact_row
from .fold import fold
from .models import Fact, Instance, WorkflowInbox

# Role → whether it is about a step (True), about the whole run (False) or either (None).
VERBS = {
    state.STARTED: False,
    state.DONE: True,
    state.FAILURE: None,
    state.UNDONE: None,
    state.UNDO_FAILED: True,
    state.FINISHED: False,
}
ACTIONS = {state.RETRIED: True, state.UNDONE: None, state.CLOSED: False}
# Must be the same under the same idempotency key.
CONTENT = ("role", "step", "origin", "reason", "detail", "aggregate_id")
AUDITED = {
    state.RETRIED: actions.RETRY_STEP,
    state.UNDONE: actions.MARK_COMPENSATED,
    state.CLOSED: actions.CLOSE_WORKFLOW,
}
REPORT_FAILURE_FIRST = "report the failure first"
OR_NAME_THE_STEP = f"{REPORT_FAILURE_FIRST}, or name the step that was undone"


class InvalidFact(ValueError):
    """A field is not valid; nothing was recorded."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why


class Conflict(Exception):
    """The state of the run does not allow this; nothing was recorded. `field` is the one to change, `why` says how."""

    def __init__(self, message: str, field: str = "", why: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.why = why


class KeyConflict(Conflict):
    def __init__(self, key: str) -> None:
        why = "belongs to another fact of this run"
        super().__init__(f"idempotency_key {key!r} {why}", "idempotency_key", why)


@dataclass(frozen=True)
class Recorded:
    """`created` is False for a repetition. `deliveries`: the new ones of a retry."""

    instance: Instance
    fact_id: int
    created: bool
    deliveries: Sequence[int] = ()


def start(
    saga_type: str, correlation_key: str, *, idempotency_key: str, actor: str, aggregate_id: str | None = None
) -> Recorded:
    """Record the start of a run, and create it unless it exists: there is one for each type and correlation key."""
    # Validate everything first: a refused start creates nothing.
    correlation_key = _text("correlation_key", correlation_key, 200)
    if aggregate_id is not None:
        aggregate_id = _text("aggregate_id", aggregate_id, 200)
    idempotency_key, actor = _text("idempotency_key", idempotency_key, 200), _text("actor", actor, 150)
    instance = Instance.objects.filter(saga_type=saga_type, correlation_key=correlation_key).first()

    def record(instance: Instance) -> Recorded:
        return _record(instance, state.STARTED, "", state.VERB, idempotency_key, actor=actor, aggregate_id=aggregate_id)

    if instance is not None:
        return record(instance)
    definition = _offered(saga_type)
    # A web server may know a definition that no tracker has loaded yet: keep its events in the inbox.
    tracked_types.track(definition.roles)
    versions.remember([definition])
    # In one transaction: a run without a fact would never be folded, and it has no deadline.
    return in_transaction(lambda: record(_create(definition, correlation_key)))


def report(
    instance: Instance, role: str, step: str = "", *, idempotency_key: str, actor: str, error: str = ""
) -> Recorded:
    """Record the report of a service: one of VERBS. `error` is the reason of a failure."""
    require_allowed(instance, role, step, VERBS)
    key, actor = _text("idempotency_key", idempotency_key, 200), _text("actor", actor, 150)
    # Of a single step a service may report it at any time: it may be the first to know of a failure.
    if role == state.UNDONE and not step:
        _require_compensating(instance, step, key, OR_NAME_THE_STEP)
    return _record(instance, role, step, state.VERB, key, actor=actor, detail=state.printable(error))


def act(
    instance: Instance, action: str, step: str = "", *, idempotency_key: str, actor: str, reason: str, detail: str = ""
) -> Recorded:
    """Record the action of an operator: one of ACTIONS. The caller has checked the permission."""
    require_allowed(instance, action, step, ACTIONS)
    try:
        reason = clean_reason(reason)
    except InvalidReason as error:
        raise InvalidFact("reason", error.why) from None
    key, actor = _text("idempotency_key", idempotency_key, 200), _text("actor", actor, 150)
    if action == state.UNDONE:
        _require_compensating(instance, step, key, REPORT_FAILURE_FIRST)
    # Otherwise it would count as resolved by hand where nothing was wrong.
    if action == state.CLOSED and not instance.can_be_closed and not _is_stored(instance, key):
        raise Conflict(_("the run has ended and needs no operator, so there is nothing to close"))

    def record() -> Recorded:
        recorded = _record(
            instance, action, step, state.OPERATOR, key, actor=actor, reason=reason, detail=detail or reason
        )
        if recorded.created:
            details = {"saga": str(instance.saga_id), "step": step}
            auditlog.record(AUDITED[action], instance, kind="workflow", by=actor, reason=reason, details=details)
        return recorded

    # Fact and audit entry together; of two equal concurrent requests, one is audited.
    recorded = in_transaction(record)
    if recorded.created:
        log(Log.WORKFLOW_OPERATOR_ACTED, **instance.log_fields, action=action, step=step, requested_by=actor)
    return recorded


def new_run(definition: Definition, correlation_key: str) -> dict[str, object]:
    """The row of a run without facts."""
    return {
        "saga_id": new_uid(),
        "saga_type": definition.name,
        "definition_version": definition.version,
        "correlation_key": correlation_key,
        "current_step": "",
        "status": state.IN_PROGRESS,
        "error_message": "",
        "steps": "{}",
        "anomaly": "",
        "needs_operator": False,
        "by_hand": False,
        "version": 0,
    }


def _create(definition: Definition, correlation_key: str) -> Instance:
    rows = [new_run(definition, correlation_key)]
    insert_new(Instance, rows, key=("saga_type", "correlation_key"), look_first=True)
    return Instance.objects.get(saga_type=definition.name, correlation_key=correlation_key)


def _offered(saga_type: str) -> Definition:
    registry = versions.in_force()
    if saga_type in registry.latest:
        return registry.latest[saga_type]
    what = "is no longer offered and starts no new runs" if saga_type in registry.shown else "is not a workflow"
    names = ", ".join(sorted(registry.latest)) or "none"
    raise InvalidFact("saga_type", f"{saga_type!r} {what}; the workflows are {names}")


def require_allowed(instance: Instance, role: str, step: str, table: dict[str, bool | None]) -> None:
    if role not in table:
        raise InvalidFact("role", f"{role!r} is not one of {', '.join(table)}")
    steps = versions.definition_of(instance).by_key
    if step and step not in steps:
        raise InvalidFact("step", f"{step!r} is not a step of {instance.saga_type}; the steps are {', '.join(steps)}")
    if step and role in (state.UNDONE, state.UNDO_FAILED) and not steps[step].can_be_undone:
        raise InvalidFact("step", f"{step!r} cannot be undone: its definition has no event type for that")
    if table[role] is True and not step:
        raise InvalidFact("step", f"is missing; the steps are {', '.join(steps)}")
    if table[role] is False and step:
        raise InvalidFact("step", f"must be left out: {role!r} is about the whole run")


def _require_compensating(instance: Instance, step: str, key: str, remedy: str) -> None:
    """Raises Conflict if the run has not failed, as far as is known; a repetition is always accepted."""
    if _is_stored(instance, key):
        return
    status = _current_status(instance)
    if status == state.IN_PROGRESS and not step and WorkflowInbox.objects.exists():
        return  # the failure may still be in the inbox; the fold judges by the time of each fact
    if status in (state.IN_PROGRESS, state.COMPLETED):
        allowed = f"{state.COMPENSATING}, {state.COMPENSATED} or {state.FAILED}"
        why = f"the run is {status}, and only a run that is {allowed} can be marked as compensated; {remedy}"
        raise Conflict(why, "step", remedy)


def _current_status(instance: Instance) -> str:
    """The status after all stored facts, including facts that no tracker has folded yet."""
    own = facts.of([instance.pk])[instance.pk]
    if not any(fact.role in state.OBSERVED for fact in own):
        return str(instance.status)
    folded = fold(versions.definition_of(instance), own)
    if folded.next is None:
        return folded.status
    return folded.next.status or state.COMPENSATING


def _is_stored(instance: Instance, key: str) -> bool:
    return Fact.objects.filter(instance_id=instance.pk, idempotency_key=key).exists()


def _record(instance: Instance, role: str, step: str, origin: str, key: str, **columns: Any) -> Recorded:
    fact = fact_row(instance.pk, step, role, origin, clock.now(), idempotency_key=key, **columns)
    # The console's role may write neither, and so no decision: they are NULL.
    del fact["event_id"], fact["decision_no"]
    if origin == state.VERB:
        _refuse_repeats(instance, role, step, key)
    created = insert_new(Fact, [fact], key=("instance_id", "idempotency_key"))
    notify("workflows")
    stored = Fact.objects.get(instance_id=instance.pk, idempotency_key=key)
    if any(getattr(stored, name) != fact[name] for name in CONTENT):
        raise KeyConflict(key)
    return Recorded(instance, stored.pk, bool(created))


def _refuse_repeats(instance: Instance, role: str, step: str, key: str) -> None:
    """The limit of facts.without_repeats, with an error. Concurrent requests may exceed it by a few."""
    same = Fact.objects.filter(instance_id=instance.pk, event=None, step=step, role=role, origin=state.VERB)
    if len(same.values_list("pk")[:MAX_REPEATS]) == MAX_REPEATS and not _is_stored(instance, key):
        what = f"{role!r} of {f'step {step}' if step else 'the run'}"
        why = f"is new, and {what} was reported under {MAX_REPEATS} other keys; use one of these"
        raise Conflict(f"idempotency_key {why}", "idempotency_key", why)


def _text(field: str, value: object, limit: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= limit:
        raise InvalidFact(field, _("must be a text of 1 to %(limit)s characters") % {"limit": limit})
    if not value.isprintable() or value != value.strip():
        raise InvalidFact(field, _("must not contain control characters, or start or end with a space"))
    return value
