"""Whether "everything is compensated" can be said of a saga: only of one that has failed."""

from __future__ import annotations

from . import facts, used
from .fold import fold
from .models import Fact, Instance, WorkflowInbox
from .words import COMPENSATED, COMPENSATING, COMPLETED, FAILED, IN_PROGRESS, OBSERVED

REMEDY = "tell first that it has failed, or name the step that was undone"


class NotCompensating(Exception):
    """Nothing of this saga is to be undone; nothing was recorded."""

    def __init__(self, status: str) -> None:
        super().__init__(
            f"the workflow is {status}, and only one that is {COMPENSATING}, {COMPENSATED} or {FAILED} can be said "
            f"to be compensated as a whole; {REMEDY}"
        )
        self.status = status


def require(instance: Instance, idempotency_key: str) -> None:
    """Raises NotCompensating if it goes well, or has gone well, by all that is known; not of what was told before."""
    if Fact.objects.filter(instance_id=instance.pk, idempotency_key=idempotency_key).exists():
        return
    status = _status(instance)
    if status == IN_PROGRESS and WorkflowInbox.objects.exists():
        return  # the failure may be among what is still to be tracked: the fold judges by when each was said
    if status in (IN_PROGRESS, COMPLETED):
        raise NotCompensating(status)


def _status(instance: Instance) -> str:
    """As it will be when the tracker has seen what was told a moment ago, too."""
    definition = used.in_force().get(instance.saga_type, instance.definition_version)
    known = facts.of([instance.pk])[instance.pk]
    if definition is None or not any(fact.role in OBSERVED for fact in known):
        return str(instance.status)
    state = fold(definition, known)
    if state.next is None:
        return state.status
    return state.next.status or COMPENSATING
