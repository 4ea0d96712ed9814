"""Whether there is anything for a tracker or a monitor to do."""

from __future__ import annotations

from webhookhub.db.exists import Condition, any_exists

from .models import Instance, WorkflowInbox, WorkflowTouched
from .words import OPEN


def anything_to_do() -> bool:
    """An event to look at, a fact that was told, or a saga whose time has passed."""
    return any_exists(
        Condition(WorkflowInbox),
        Condition(WorkflowTouched),
        *(Condition(Instance, "status = %s AND deadline <= {now}", status) for status in OPEN),
    )
