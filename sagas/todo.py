"""Whether there is anything for an orchestrator to do."""

from __future__ import annotations

from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.db.questions import Question, any_row

from .models import Saga
from .transitions import WAITING


def anything_to_do() -> bool:
    """A result to apply, or a saga that is due."""
    return any_row(
        *(Question(Job, "settled_at IS NULL AND status = %s", status) for status in FINISHED),
        *(Question(Saga, "status = %s AND next_attempt_at <= {now}", status) for status in WAITING),
    )
