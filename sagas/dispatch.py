"""Due sagas get the job of their next attempt.

The job is inserted first, under the attempt's number, and the saga set InProgress after it. Whoever runs this
twice, or beside another orchestrator, or after a crash between the two, meets the keys and changes nothing twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from jobs import create as job_births
from subscriptions.models import Subscription
from webhookhub.conf import hub
from webhookhub.db import clock
from webhookhub.db.compiled import CompiledSelect, CompiledUpdate, Limit
from webhookhub.db.retry import one_statement
from webhookhub.logs import Fact, enabled, log

from .models import Saga
from .transitions import IN_PROGRESS, WAITING


@dataclass(frozen=True, slots=True)
class DueSaga:
    id: int
    subscription_id: int
    status: str
    attempt_count: int
    next_attempt_at: datetime

    @property
    def attempt_no(self) -> int:
        return self.attempt_count + 1


def dispatch(batch_size: int, statuses: Collection[str] = WAITING) -> int:
    """Dispatch one batch of each of these waiting statuses; returns how many sagas were looked at."""
    if not statuses:
        return 0
    now = clock.now()
    return sum(_dispatch(status, batch_size, now) for status in statuses)


def _dispatch(status: str, batch_size: int, now: datetime) -> int:
    due = [DueSaga(*row) for row in _due(status=status, now=now, limit=Limit(batch_size))]
    if not due:
        return 0
    go, wait = _by_subscription(due)
    job_births.insert([(saga.id, saga.attempt_no, saga.next_attempt_at) for saga in go], now)
    if wait:
        # A job made before its subscription was switched off is on its way: its saga must follow it.
        begun = job_births.existing([(saga.id, saga.attempt_no) for saga in wait])
        go += [saga for saga in wait if (saga.id, saga.attempt_no) in begun]
        _postpone([saga for saga in wait if (saga.id, saga.attempt_no) not in begun], now)
    _start(go, now)
    _log(go)
    return len(due)


_due = CompiledSelect(
    lambda status, now, limit: Saga.objects.due(status, now).values_list(*(field.name for field in fields(DueSaga)))[
        :limit
    ]
)
_open_ones = CompiledSelect(lambda ids: Subscription.objects.routable().filter(id__in=ids).values_list("id"))


def _by_subscription(due: Sequence[DueSaga]) -> tuple[list[DueSaga], list[DueSaga]]:
    open_ids = {id for (id,) in _open_ones(ids=list({saga.subscription_id for saga in due}))}
    go = [saga for saga in due if saga.subscription_id in open_ids]
    return go, [saga for saga in due if saga.subscription_id not in open_ids]


def _start(sagas: Sequence[DueSaga], now: datetime) -> None:
    """Compare-and-set to InProgress: same status, same number of attempts."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for saga in sagas:
        groups[saga.status, saga.attempt_count].append(saga.id)
    for (status, attempt_count), ids in groups.items():
        given = {"ids": ids, "status": status, "attempt_count": attempt_count, "now": now}
        one_statement(lambda given=given: _to_in_progress(**given))  # type: ignore[misc]


_to_in_progress = CompiledUpdate(
    lambda ids, status, attempt_count, now: (
        Saga.objects.filter(id__in=ids, status=status, attempt_count=attempt_count),
        {"status": IN_PROGRESS, "updated_at": now},
    )
)


def _postpone(sagas: Sequence[DueSaga], now: datetime) -> None:
    """Move sagas whose subscription is off away from the head of the index; no attempt is counted."""
    if not sagas:
        return
    waiting = Saga.objects.filter(id__in=[saga.id for saga in sagas], status=sagas[0].status, next_attempt_at__lte=now)
    one_statement(lambda: waiting.update(next_attempt_at=now + hub().postpone, updated_at=now))
    if enabled(Fact.SAGA_POSTPONED):
        for saga_id, subscription_id, correlation_id in waiting.model.objects.filter(
            id__in=[saga.id for saga in sagas]
        ).values_list("id", "subscription_id", "event__correlation_id"):
            log(
                Fact.SAGA_POSTPONED,
                correlation_id=correlation_id,
                saga_id=saga_id,
                subscription_id=subscription_id,
                delivery_status=sagas[0].status,
            )


def _log(sagas: Sequence[DueSaga]) -> None:
    if not sagas or not enabled(Fact.SAGA_DISPATCHED):
        return
    job_ids = job_births.existing([(saga.id, saga.attempt_no) for saga in sagas])
    correlation = dict(
        Saga.objects.filter(id__in=[saga.id for saga in sagas]).values_list("id", "event__correlation_id")
    )
    for saga in sagas:
        log(
            Fact.SAGA_DISPATCHED,
            correlation_id=correlation[saga.id],
            saga_id=saga.id,
            job_id=job_ids.get((saga.id, saga.attempt_no)),
            attempt_no=saga.attempt_no,
            delivery_status=IN_PROGRESS,
        )
