"""Creates jobs: one for each attempt of a saga, however often it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from django.db import IntegrityError
from django.db.models import DateTimeField, Exists, ExpressionWrapper, F, OuterRef, Subquery, Value
from django.db.models.functions import Greatest

from sagas.models import Saga
from subscriptions.models import Subscription
from webhookhub.db.clock import UtcNow
from webhookhub.db.compiled import CompiledInsert, CompiledSelect, as_number
from webhookhub.db.errors import Kind, kind_of
from webhookhub.db.retry import one_statement
from webhookhub.runner.notifier import notify

from .models import Job
from .states import PENDING


def create_jobs(saga_ids: Sequence[int], status: str, attempt_count: int) -> dict[int, int]:
    """Insert a ready job for the next attempt of each of these sagas that has none; returns the job of each saga.

    Only for due sagas that still have this status and count, as the statement reads them itself: one that has moved on
    or was parked since it was read gets no job, and the others get theirs. It locks them against changes: a saga
    that is being abandoned at the same time has its job before the mark, or gets none.
    """
    left = list(saga_ids)
    while left:
        waiting: dict[str, Any] = {"ids": left, "status": status, "attempt_count": attempt_count}
        try:
            if attempt_count:
                one_statement(lambda waiting=waiting: _insert_retries(**waiting))  # type: ignore[misc]
            else:
                one_statement(lambda waiting=waiting: _insert(**waiting))  # type: ignore[misc]
            break
        except IntegrityError as error:
            # Another orchestrator has inserted some of them in the meantime.
            left = [id for (id,) in _without_job(**waiting)]
            if kind_of(error) is not Kind.DUPLICATE or len(left) == len(waiting["ids"]):
                raise
    jobs = find_jobs(saga_ids, attempt_count + 1)
    notify("worker", "attempts", list(jobs.values()))
    return jobs


def create_first_jobs(saga_ids: Sequence[int]) -> dict[int, int] | None:
    """Insert a ready job for the first attempt of each of these sagas; returns the job of each saga.

    Only for due sagas without a job whose subscriptions get deliveries, as the statement reads them itself. None if it
    has not inserted all of them: polling finds out which ones.
    """
    try:
        inserted = one_statement(lambda: _insert_first(ids=list(saga_ids), status=PENDING, attempt_count=0))
    except IntegrityError as error:
        if kind_of(error) is not Kind.DUPLICATE:
            raise
        return None  # another orchestrator has inserted one of them at the same time
    if inserted.affected < len(saga_ids):
        return None
    jobs = {saga_ids[0]: inserted.pk} if inserted.affected == 1 else find_jobs(saga_ids, 1)
    notify("worker", "attempts", list(jobs.values()))
    return jobs


def _sagas_without_job(ids: Any, status: Any, attempt_count: Any) -> Any:
    job = Job.objects.filter(saga_id=OuterRef("id"), attempt_no=OuterRef("attempt_count") + 1)
    due = Saga.objects.filter(id__in=ids, status=status, attempt_count=attempt_count, next_attempt_at__lte=UtcNow())
    return due.filter(~Exists(job), abandoned_by__isnull=True)


def _first_sagas(ids: Any, status: Any, attempt_count: Any) -> Any:
    routable = Subscription.objects.routable().filter(id=OuterRef("subscription_id"))
    return _sagas_without_job(ids, status, attempt_count).filter(Exists(routable))


def after_last_attempt() -> Subquery:
    """The earliest time of a saga's next attempt."""
    last = Job.objects.filter(saga_id=OuterRef("id"), attempt_no=OuterRef("attempt_count"))
    later = ExpressionWrapper(F("attempt_at") + timedelta(microseconds=1), output_field=DateTimeField())
    return Subquery(last.values(later=later)[:1])


NEW_JOB = {
    "saga_id": F("id"),
    "attempt_no": F("attempt_count") + 1,
    "status": Value(PENDING),
    "attempt_at": F("next_attempt_at"),
    "lease_until": UtcNow(),
}
_without_job = CompiledSelect(lambda **waiting: _sagas_without_job(**waiting).values_list("id"))
_insert = CompiledInsert(
    Job, lambda **waiting: (_sagas_without_job(**waiting).order_by("next_attempt_at", "id"), NEW_JOB)
)
# A retry is due later than the attempt before, even if another program has moved the saga's time back.
_insert_retries = CompiledInsert(
    Job,
    lambda **waiting: (
        _sagas_without_job(**waiting).order_by("next_attempt_at", "id"),
        {**NEW_JOB, "attempt_at": Greatest(F("next_attempt_at"), after_last_attempt())},
    ),
)
_insert_first = CompiledInsert(Job, lambda **waiting: (_first_sagas(**waiting).order_by("id"), NEW_JOB))


def find_jobs(saga_ids: Collection[int], attempt_no: int) -> dict[int, int]:
    """The job id of this attempt of each saga that has one, by the saga's id."""
    return dict(_jobs(ids=list(saga_ids), attempt_no=attempt_no)) if saga_ids else {}


_jobs = CompiledSelect(
    lambda ids, attempt_no: (
        Job.objects.alias(number=as_number("saga_id"))
        .filter(number__in=ids, attempt_no=attempt_no)
        .values_list("saga_id", "id")
    )
)
