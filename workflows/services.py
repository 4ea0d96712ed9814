"""What services and operators tell of a saga, as facts: the verbs of ADR-025's tracker, and the operators' actions.

Each carries an idempotency key: the same again changes nothing. A tracker folds what was told within a moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from webhookhub.auditlog import actions
from webhookhub.auditlog import record as trail
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_uid
from webhookhub.runner.notifier import notify
from webhookhub.validators import InvalidReason, clean_reason

from . import compensation, listening, versions
from .definition import Definition
from .facts import MOST_REPEATS
from .models import Fact, Instance
from .paths import printable
from .state import TEXT_LENGTH
from .words import (
    CLOSED,
    DONE,
    FAILURE,
    FINISHED,
    IN_PROGRESS,
    OPERATOR,
    RETRIED,
    STARTED,
    UNDO_FAILED,
    UNDONE,
    VERB,
)

# What may be said, and whether of a step (True), of the saga as a whole (False) or of either (None).
VERBS = {STARTED: False, DONE: True, FAILURE: None, UNDONE: None, UNDO_FAILED: True, FINISHED: False}
ACTIONS = {RETRIED: True, UNDONE: None, CLOSED: False}
# What is said, as against by whom and when: under the same key it must be the same.
CONTENT = ("role", "step", "origin", "reason", "detail", "aggregate_id")
# What the trail of what people did calls them.
TOLD = {RETRIED: actions.RETRY_STEP, UNDONE: actions.MARK_COMPENSATED, CLOSED: actions.CLOSE_WORKFLOW}


class InvalidFact(ValueError):
    """A field is not acceptable; nothing was recorded."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")
        self.field = field
        self.why = why


class KeyConflict(Exception):
    """The idempotency key was used before for another fact of this saga; nothing was recorded."""

    def __init__(self, key: str) -> None:
        super().__init__(_("idempotency_key %(key)s stands for another fact of this saga") % {"key": repr(key)})
        self.key = key


class NothingToClose(Exception):
    """The saga has ended and waits for nobody; nothing was recorded."""

    def __init__(self) -> None:
        super().__init__(_("the workflow has ended and waits for nobody, so there is nothing to close"))


class ToldTooOften(Exception):
    """The same was told under other keys so often that it is not kept once more; nothing was recorded."""

    def __init__(self, role: str, step: str) -> None:
        what = f"{role!r} of {f'step {step}' if step else 'the saga'}"
        self.why = f"is new, and {what} was told under {MOST_REPEATS} others; tell it under one of these"
        super().__init__(f"idempotency_key {self.why}")


@dataclass(frozen=True)
class Recorded:
    """`created` is False when it was told before."""

    instance: Instance
    fact_id: int
    created: bool


def start(
    saga_type: str, correlation_key: str, *, idempotency_key: str, actor: str, aggregate_id: str | None = None
) -> Recorded:
    """A saga begins, or began already: there is one for each type and correlation key."""
    correlation_key = _text("correlation_key", correlation_key, 200)
    if aggregate_id is not None:
        aggregate_id = _text("aggregate_id", aggregate_id, 200)
    # All of it before the saga is born: what is refused leaves nothing behind.
    idempotency_key, actor = _text("idempotency_key", idempotency_key, 200), _text("actor", actor, 150)
    instance = Instance.objects.filter(saga_type=saga_type, correlation_key=correlation_key).first()

    def record(instance: Instance) -> Recorded:
        return _record(instance, STARTED, "", VERB, idempotency_key, actor, aggregate_id=aggregate_id)

    if instance is not None:
        return record(instance)
    definition = _offered(saga_type)
    # A web server may have a definition that no tracker has seen yet: what comes for this saga is kept for them.
    listening.track(definition.roles)
    versions.remember([definition])
    # Both or neither: nothing would ever call for a saga without a fact, and it has no deadline.
    return in_transaction(lambda: record(_born(definition, correlation_key)))


def tell(
    instance: Instance, role: str, step: str = "", *, idempotency_key: str, actor: str, error: str = ""
) -> Recorded:
    """A service says how far it is: one of VERBS. `error` is why something failed."""
    _allowed(instance, role, step, VERBS)
    key = _text("idempotency_key", idempotency_key, 200)
    # A service may be the first to know that something has failed, and say of its step that it is undone.
    if role == UNDONE and not step:
        compensation.require(instance, step, key, compensation.OR_NAME_THE_STEP)
    return _record(instance, role, step, VERB, idempotency_key, actor, detail=printable(error, TEXT_LENGTH))


def act(
    instance: Instance, action: str, step: str = "", *, idempotency_key: str, actor: str, reason: str, detail: str = ""
) -> Recorded:
    """An operator steps in: one of ACTIONS. The caller has seen to the permission."""
    _allowed(instance, action, step, ACTIONS)
    reason = _reason(reason)
    key, actor = _text("idempotency_key", idempotency_key, 200), _text("actor", actor, 150)
    if action == UNDONE:
        compensation.require(instance, step, key)
    if action == CLOSED:
        _require_closable(instance, key)

    def record() -> Recorded:
        recorded = _record(instance, action, step, OPERATOR, key, actor, reason, detail or reason)
        if recorded.created:
            details = {"saga": str(instance.saga_id), "step": step}
            trail.record(
                TOLD[action],
                kind="workflow",
                id=instance.pk,
                name=str(instance),
                by=actor,
                reason=reason,
                details=details,
            )
        return recorded

    # Both or neither; and of two who send the same at one moment, one is told of.
    return in_transaction(record)


def _offered(saga_type: str) -> Definition:
    known = versions.in_force()
    if saga_type in known.latest:
        return known.latest[saga_type]
    what = "is no longer offered: no new one begins" if saga_type in known.shown else "is no workflow"
    raise InvalidFact("saga_type", f"{saga_type!r} {what}; there are {', '.join(sorted(known.latest)) or 'none'}")


def _born(definition: Definition, correlation_key: str) -> Instance:
    insert_new(Instance, [row(definition, correlation_key)], key=("saga_type", "correlation_key"), look_first=True)
    return Instance.objects.get(saga_type=definition.name, correlation_key=correlation_key)


def row(definition: Definition, correlation_key: str) -> dict[str, object]:
    """A saga of which nothing is known yet but that it exists."""
    return {
        "saga_id": new_uid(),
        "saga_type": definition.name,
        "definition_version": definition.version,
        "correlation_key": correlation_key,
        "current_step": "",
        "status": IN_PROGRESS,
        "error_message": "",
        "steps": "{}",
        "anomaly": "",
        "needs_operator": False,
        "by_hand": False,
        "version": 0,
    }


def _allowed(instance: Instance, role: str, step: str, table: dict[str, bool | None]) -> None:
    if role not in table:
        raise InvalidFact("role", f"{role!r} is none of {', '.join(table)}")
    of_step = table[role]
    definition = versions.in_force().get(instance.saga_type, instance.definition_version)
    keys = definition.by_key if definition else {}
    if step and step not in keys:
        raise InvalidFact("step", f"{step!r} is no step of {instance.saga_type}; there are {', '.join(keys)}")
    if step and role in (UNDONE, UNDO_FAILED) and not keys[step].can_be_undone:
        raise InvalidFact("step", f"{step!r} is not one that is undone: its definition names no event that says so")
    if of_step is True and not step:
        raise InvalidFact("step", f"is missing; there are {', '.join(keys)}")
    if of_step is False and step:
        raise InvalidFact("step", f"must be left out: {role!r} is said of the saga as a whole")


def _require_closable(instance: Instance, key: str) -> None:
    """It would count as put right by hand where nothing was wrong. What was told before is not refused."""
    if not instance.can_be_closed and not _was_told(instance, key):
        raise NothingToClose


def _was_told(instance: Instance, key: str) -> bool:
    return Fact.objects.filter(instance_id=instance.pk, idempotency_key=key).exists()


def _record(
    instance: Instance,
    role: str,
    step: str,
    origin: str,
    idempotency_key: str,
    actor: str,
    reason: str = "",
    detail: str = "",
    aggregate_id: str | None = None,
) -> Recorded:
    key = _text("idempotency_key", idempotency_key, 200)
    now = clock.now()
    fact = {
        "instance_id": instance.pk,
        "event_id": None,
        "step": step,
        "role": role,
        "origin": origin,
        "idempotency_key": key,
        "decision_no": None,
        "actor": _text("actor", actor, 150),
        "reason": reason,
        "detail": detail,
        "aggregate_id": aggregate_id,
        "occurred_at": now,
        "recorded_at": now,
    }
    if origin == VERB:
        _refuse_repetition(instance, role, step, key)
    created = insert_new(Fact, [fact], key=("instance_id", "idempotency_key"))
    notify("workflows")
    stored = Fact.objects.get(instance_id=instance.pk, idempotency_key=key)
    if any(getattr(stored, name) != fact[name] for name in CONTENT):
        raise KeyConflict(key)
    return Recorded(instance, stored.pk, bool(created))


def _refuse_repetition(instance: Instance, role: str, step: str, key: str) -> None:
    """As of events, see facts.without_repeats; but whoever tells it hears so. Of several who tell it at the same time,
    each may still be heard."""
    told = Fact.objects.filter(instance_id=instance.pk, event=None, step=step, role=role, origin=VERB)
    if len(told.values_list("pk")[:MOST_REPEATS]) < MOST_REPEATS:
        return
    if not _was_told(instance, key):
        raise ToldTooOften(role, step)


def _reason(given: str) -> str:
    try:
        return clean_reason(given)
    except InvalidReason as error:
        raise InvalidFact("reason", error.why) from None


def _text(field: str, value: object, limit: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= limit:
        raise InvalidFact(field, _("must be a text of 1 to %(limit)s characters") % {"limit": limit})
    if not value.isprintable() or value != value.strip():
        raise InvalidFact(field, _("must not hold control characters, or begin or end with a blank"))
    return value
