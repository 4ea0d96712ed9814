"""Whether there is anything for a tracker or a monitor to do."""

from __future__ import annotations

from webhookhub.db.exists import Question, any_row

from .models import Instance, WorkflowInbox, WorkflowTouched
from .words import OPEN


def anything_to_do() -> bool:
    """An event to look at, a fact that was told, or a saga whose time has passed."""
    return any_row(
        Question(WorkflowInbox),
        Question(WorkflowTouched),
        *(Question(Instance, "status = %s AND deadline <= {now}", status) for status in OPEN),
    )
