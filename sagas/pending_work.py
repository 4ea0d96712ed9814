"""What there is for an orchestrator to do."""

from __future__ import annotations

from jobs.models import Job
from jobs.states import FINISHED
from webhookhub.db.exists import Condition, which_exist

from .models import Saga
from .transitions import WAITING

QUESTIONS = (
    *(Condition(Saga, "status = %s AND next_attempt_at <= {now}", status) for status in WAITING),
    *(Condition(Job, "settled_at IS NULL AND status = %s", status) for status in FINISHED),
)


def todo() -> tuple[list[str], list[str]]:
    """The statuses of which sagas are due, and those of which results are to be applied, in their order."""
    answers = which_exist(*QUESTIONS)
    due = [status for status, there in zip(WAITING, answers, strict=False) if there]
    return due, [status for status, there in zip(FINISHED, answers[len(WAITING) :], strict=True) if there]
