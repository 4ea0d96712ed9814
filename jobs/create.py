"""Creates jobs: one for each attempt of a saga, however often it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models import DateTimeField, Exists, ExpressionWrapper, F, OuterRef, Value
from django.db.models.functions import Least

from sagas.models import Saga
from webhookhub.db.compiled import CompiledInsert, CompiledSelect
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.retry import one_statement
from webhookhub.runner.notifier import notify

from .models import Job
from .states import PENDING


def create_jobs(saga_ids: Sequence[int], status: str, attempt_count: int, now: datetime) -> None:
    """Insert a ready job for the next attempt of each of these sagas that has none.

    Only for sagas that still have this status and count, as the statement reads them itself, without locking them: one
    that has moved on since it was found due gets no job, and the others get theirs.
    """
    waiting: dict[str, Any] = {"ids": list(saga_ids), "status": status, "attempt_count": attempt_count}
    while waiting["ids"]:
        try:
            one_statement(lambda: _insert(now=now, **waiting))
            break
        except IntegrityError as error:
            if kind_of(error) is not Kind.DUPLICATE:
                raise
            # Another orchestrator has inserted some of them in the meantime.
            without_job = [saga_id for (saga_id,) in _without_job(**waiting)]
            if len(without_job) == len(waiting["ids"]):
                raise
            waiting["ids"] = without_job
    notify("worker")


def _sagas_without_job(ids: Any, status: Any, attempt_count: Any) -> Any:
    job = Job.objects.filter(saga_id=OuterRef("id"), attempt_no=OuterRef("attempt_count") + 1)
    return Saga.objects.filter(~Exists(job), id__in=ids, status=status, attempt_count=attempt_count)


_without_job = CompiledSelect(lambda **waiting: _sagas_without_job(**waiting).values_list("id"))
_insert = CompiledInsert(
    Job,
    lambda now, **waiting: (
        _sagas_without_job(**waiting).order_by("next_attempt_at", "id"),
        {
            "saga_id": F("id"),
            "attempt_no": F("attempt_count") + 1,
            "status": Value(PENDING),
            # It was due; if it was postponed in the meantime, its time is now.
            "attempt_at": Least(F("next_attempt_at"), ExpressionWrapper(now, output_field=DateTimeField())),
            "lease_until": ExpressionWrapper(now, output_field=DateTimeField()),
        },
    ),
)


def find_jobs(attempts: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The job id of each (saga id, attempt number) that has a job."""
    wanted = set(attempts)
    rows = Job.objects.filter(
        saga_id__in={saga_id for saga_id, _ in wanted},
        attempt_no__in={attempt_no for _, attempt_no in wanted},
    ).values_list("saga_id", "attempt_no", "id")
    return {(saga_id, attempt_no): job_id for saga_id, attempt_no, job_id in rows if (saga_id, attempt_no) in wanted}
