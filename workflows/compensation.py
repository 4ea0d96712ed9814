"""Whether it can be said of a saga that it is compensated, as a whole or, by an operator, in a step: only of one that
has failed."""

from __future__ import annotations

from . import facts, versions
from .fold import fold
from .models import Fact, Instance, WorkflowInbox
from .words import COMPENSATED, COMPENSATING, COMPLETED, FAILED, IN_PROGRESS, OBSERVED

TELL_FIRST = "tell first that it has failed"
OR_NAME_THE_STEP = f"{TELL_FIRST}, or name the step that was undone"


class NotCompensating(Exception):
    """Nothing of this saga is to be undone; nothing was recorded."""

    def __init__(self, status: str, remedy: str) -> None:
        super().__init__(
            f"the workflow is {status}, and only one that is {COMPENSATING}, {COMPENSATED} or {FAILED} can be said "
            f"to be compensated; {remedy}"
        )
        self.remedy = remedy


def require(instance: Instance, step: str, idempotency_key: str, remedy: str = TELL_FIRST) -> None:
    """Raises NotCompensating if it goes well, or has gone well, by all that is known; not of what was told before."""
    if Fact.objects.filter(instance_id=instance.pk, idempotency_key=idempotency_key).exists():
        return
    status = _status(instance)
    if status == IN_PROGRESS and not step and WorkflowInbox.objects.exists():
        return  # the failure may be among what is still to be tracked: the fold judges by when each was said
    if status in (IN_PROGRESS, COMPLETED):
        raise NotCompensating(status, remedy)


def _status(instance: Instance) -> str:
    """As it will be when the tracker has seen what was told a moment ago, too."""
    definition = versions.in_force().get(instance.saga_type, instance.definition_version)
    known = facts.of([instance.pk])[instance.pk]
    if definition is None or not any(fact.role in OBSERVED for fact in known):
        return str(instance.status)
    state = fold(definition, known)
    if state.next is None:
        return state.status
    return state.next.status or COMPENSATING
