"""Requeue: deliver a dead letter again as a new saga of the next generation.

The request is recorded first, then the saga is created; each has a unique key. Two people, or two tries of one
request, create one saga, and a request that crashed in between is completed by the next one. The audit entry is
written in the transaction of the record.

A recorded request without a saga may belong to a concurrent call: create its saga and keep its author. If it is older
than CUT_SHORT_AFTER, its process has died: the call that creates the saga records that it completed the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

from sagas.create import NewSaga, create_sagas
from sagas.models import Saga
from sagas.policy import RetryPolicy
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import listed, record
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_token
from webhookhub.logs import Log, log
from webhookhub.validators import InvalidReason, clean_reason

from .models import DeadLetter, Requeue

PERMISSION = "deadletters.requeue_deadletter"
BULK_PERMISSION = "deadletters.bulk_requeue_deadletter"
BATCH = 500
# Longer than a request may wait for locks and retry.
CUT_SHORT_AFTER = timedelta(minutes=5)
# An operator's database role cannot read a subscription's secrets.
COLUMNS = (
    "saga__generation",
    "event__correlation_id",
    "subscription__max_retry_limit",
    "subscription__base_delay",
)


class Requester(Protocol):
    """A user of the console, an API key, or an operator at the command line."""

    def get_username(self) -> str: ...

    def has_perm(self, perm: str) -> bool: ...


class InvalidRequeue(ValueError):
    """The request is invalid; nothing was written."""


@dataclass(frozen=True)
class RequeueResult:
    """`created`: this request is the recorded one. `completed`: it completed an earlier request that had crashed."""

    dead_letter_id: int
    saga_id: int
    created: bool
    requested_by: str
    completed: bool = False

    @property
    def is_new(self) -> bool:
        return self.created or self.completed


class AuditEntry(NamedTuple):
    action: str
    details: Mapping[str, Any] = {}


def requeue(dead_letter_ids: Sequence[int], *, by: Requester, reason: str) -> list[RequeueResult]:
    """Requeue dead letters; one result each, ordered by id.

    Raises PermissionDenied, or InvalidRequeue for a bad reason or an unknown id, before anything is written.
    """
    ids = sorted(set(dead_letter_ids))
    reason = check_request(by, reason, many=len(ids) > 1)
    entry = AuditEntry(actions.REQUEUE if len(ids) == 1 else actions.REQUEUE_MANY)
    return perform(ids, by=by, reason=reason, entry=entry)[0]


def required_permissions(*, many: bool) -> list[str]:
    return [PERMISSION, BULK_PERMISSION] if many else [PERMISSION]


def check_request(by: Requester, reason: str, *, many: bool) -> str:
    """The normalized reason. Raises PermissionDenied or InvalidRequeue."""
    missing = [permission for permission in required_permissions(many=many) if not by.has_perm(permission)]
    if missing:
        raise PermissionDenied(f"{by.get_username()} lacks the permission {missing[0]}")
    try:
        return clean_reason(reason)
    except InvalidReason as error:
        raise InvalidRequeue(str(error)) from None


def perform(
    dead_letter_ids: Sequence[int],
    *,
    by: Requester,
    reason: str,
    entry: AuditEntry,
    token: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[RequeueResult], int]:
    """The results, and how many dead letters this call was the first to requeue. Call check_request() before.

    A call with the `token` of an earlier one is the same request: it returns the same results.
    """
    ids, token = sorted(set(dead_letter_ids)), token or new_token()
    batches = [_letters(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH)]
    new, completed = in_transaction(lambda: _record(batches, by.get_username(), reason, token, entry))
    results: list[RequeueResult] = []
    for letters in batches:
        results += _deliver(letters, token, completed)
        progress(len(results))
    return results, new + len(completed)


def successors(letters: Sequence[DeadLetter]) -> dict[int, int]:
    """Dead letter id → id of the saga of the next generation, where there is one."""
    sagas = {
        (event_id, subscription_id, generation): id
        for id, event_id, subscription_id, generation in Saga.objects.filter(
            event_id__in={letter.event_id for letter in letters},
            subscription_id__in={letter.subscription_id for letter in letters},
        ).values_list("id", "event_id", "subscription_id", "generation")
    }
    keys = {letter.id: (letter.event_id, letter.subscription_id, letter.saga.generation + 1) for letter in letters}
    return {letter_id: sagas[key] for letter_id, key in keys.items() if key in sagas}


def _letters(ids: Sequence[int]) -> list[DeadLetter]:
    rows = DeadLetter.objects.filter(id__in=ids).select_related("saga", "event", "subscription").order_by("id")
    letters = list(rows.only(*COLUMNS))
    unknown = set(ids) - {letter.id for letter in letters}
    if unknown:
        raise InvalidRequeue(_("there is no dead letter %(number)s") % {"number": min(unknown)})
    return letters


def _record(
    batches: Sequence[Sequence[DeadLetter]], username: str, reason: str, token: str, entry: AuditEntry
) -> tuple[int, set[int]]:
    """Record the requests and the audit entry in one transaction.

    Returns how many requests are new, and the dead letters whose crashed request was completed.
    """
    now = clock.now()
    request = {"requested_by": username, "requested_at": now, "reason": reason, "request_token": token}
    new = sum(
        insert_new(Requeue, [{"dead_letter_id": letter.id, **request} for letter in letters], key=("dead_letter_id",))
        for letters in batches
    )
    ids = [letter.id for letters in batches for letter in letters]
    completed: set[int] = set()
    if new < len(ids):
        completed = {id for letters in batches for id in _complete(letters, now - CUT_SHORT_AFTER, token)}
    if new or completed:
        single = ids[0] if entry.action == actions.REQUEUE else None
        details = {**entry.details, **({} if single else _counts(ids, new, token))}
        if completed:
            details["completed"] = len(completed)
        record(entry.action, kind="deadletter", id=single, by=username, reason=reason, details=details)
    return new, completed


def _complete(letters: Sequence[DeadLetter], recorded_before: datetime, token: str) -> set[int]:
    """Create the sagas of other requests that crashed; the dead letters whose saga this call created."""
    requests = Requeue.objects.filter(dead_letter__in=letters, requested_at__lt=recorded_before)
    old = set(requests.exclude(request_token=token).values_list("dead_letter_id", flat=True))
    done = successors([letter for letter in letters if letter.id in old]) if old else {}
    return _create_sagas([letter for letter in letters if letter.id in old - done.keys()])


def _counts(ids: Sequence[int], new: int, token: str) -> dict[str, Any]:
    if new == len(ids):
        return {"requeued": new, "dead_letters": listed(ids)}
    batches = (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
    own = Requeue.objects.filter(request_token=token).order_by("dead_letter").values_list("dead_letter_id", flat=True)
    requeued = [id for batch in batches for id in own.filter(dead_letter__in=batch)]
    return {"requeued": new, "requeued_before": len(ids) - new, "dead_letters": listed(requeued)}


def _deliver(letters: Sequence[DeadLetter], token: str, completed: AbstractSet[int]) -> list[RequeueResult]:
    """Create the missing sagas."""
    before = successors(letters)
    created = _create_sagas([letter for letter in letters if letter.id not in before]) | completed
    after = successors(letters)
    requests = {request.dead_letter_id: request for request in Requeue.objects.filter(dead_letter__in=letters)}
    results = []
    for letter in letters:
        request, saga_id = requests[letter.id], after[letter.id]
        # The author is who recorded the request, even if a concurrent call created the saga: exactly one of several
        # concurrent requests gets `created`.
        own = request.request_token == token
        results.append(RequeueResult(letter.id, saga_id, own, request.requested_by, letter.id in completed))
        if letter.id in created:
            log(
                Log.SAGA_REQUEUED,
                correlation_id=letter.event.correlation_id,
                saga_id=saga_id,
                dead_letter_id=letter.id,
                delivery_status="Pending",
                requested_by=request.requested_by,
            )
    return results


def _create_sagas(letters: Sequence[DeadLetter]) -> set[int]:
    """Insert the sagas of the next generation; the dead letters whose saga is new."""
    sagas = {letter.id: _new_saga(letter) for letter in letters}
    new = create_sagas(list(sagas.values()), BATCH)
    return {id for id, saga in sagas.items() if saga.key in new}


def _new_saga(letter: DeadLetter) -> NewSaga:
    policy = RetryPolicy.with_overrides(letter.subscription.max_retry_limit, letter.subscription.base_delay)
    return NewSaga(letter.event_id, letter.subscription_id, letter.saga.generation + 1, policy)
