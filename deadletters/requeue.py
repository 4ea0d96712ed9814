"""Requeue: deliver a dead letter again as a new saga of the next generation.

One transaction records who asked and why and writes the audit entry; a trigger on the record creates the saga. The
record has a unique key: of two concurrent requests the second waits, and then returns the saga of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

from sagas.create import count_requeued
from sagas.models import Saga
from sagas.policy import RetryPolicy
from sagas.transitions import DEAD_LETTERED
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import listed, record
from webhookhub.db import clock
from webhookhub.db.bulk import insert_which
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_token
from webhookhub.logs import Log, log
from webhookhub.validators import InvalidReason, clean_reason

from .models import DeadLetter, Requeue

PERMISSION = "deadletters.requeue_deadletter"
BULK_PERMISSION = "deadletters.bulk_requeue_deadletter"
BATCH = 500
# An operator's database role cannot read a subscription's secrets.
COLUMNS = (
    "saga__generation",
    "saga__status",
    "event__correlation_id",
    "subscription__active",
    "subscription__verified",
    "subscription__disabled_at",
    "subscription__customer_disabled_at",
    "subscription__max_retry_limit",
    "subscription__base_delay",
    "subscription__retry_delays",
)


class Requester(Protocol):
    """A user of the console, an API key, or an operator at the command line."""

    def get_username(self) -> str: ...

    def has_perm(self, perm: str) -> bool: ...


class InvalidRequeue(ValueError):
    """The request is invalid; nothing was written."""


class MissingRow(InvalidRequeue):
    """A dead letter, or the delivery, event or subscription that it refers to, does not exist."""


class NotEnded(InvalidRequeue):
    """A dead letter's delivery is not DeadLettered yet: the orchestrator writes the dead letter first."""


class WouldWait(InvalidRequeue):
    """New deliveries would wait for subscriptions that are paused, disabled or not verified.

    `allow_waiting` permits that.
    """

    def __init__(self, letters: Sequence[DeadLetter]) -> None:
        subscription = letters[0].subscription
        if len(letters) > 1:
            text = _(
                "%(count)s new deliveries would wait, because their subscriptions are paused, disabled or not verified"
            )
        elif not subscription.active:
            text = _("subscription %(number)s is paused: the new delivery would wait until it is resumed")
        elif subscription.disabled_at is not None:
            text = _(
                "the endpoint of subscription %(number)s is disabled: the new delivery would wait until it is enabled"
            )
        elif subscription.customer_disabled_at is not None:
            text = _(
                "the customer of subscription %(number)s is disabled: the new delivery would wait until it is enabled"
            )
        else:
            text = _("subscription %(number)s is not verified: the new delivery would wait until it is")
        super().__init__(text % {"count": len(letters), "number": subscription.pk})


@dataclass(frozen=True)
class RequeueResult:
    """`created` is False if an earlier request has requeued the dead letter.

    `repeated`: the earlier request had the same token.
    """

    dead_letter_id: int
    saga_id: int
    created: bool
    requested_by: str
    repeated: bool = False


def requeue(
    dead_letter_ids: Sequence[int],
    *,
    by: Requester,
    reason: str,
    allow_waiting: bool = False,
    selection: Mapping[str, Any] | None = None,
    token: str | None = None,
) -> list[RequeueResult]:
    """Requeue dead letters; one result each, ordered by id.

    Out of several, those whose deliveries have not ended yet are left out; they can be requeued later.
    Raises PermissionDenied, or InvalidRequeue for a bad reason, an unknown id or if no delivery has ended, before
    anything is written; and WouldWait unless `allow_waiting`.
    `selection` says how a filter has selected the dead letters; the audit log keeps it. A call with the `token` of an
    earlier one is the same request and returns the same results.
    """
    ids, token = sorted(set(dead_letter_ids)), token or new_token()
    many = len(ids) > 1 or selection is not None
    for permission in required_permissions(many=many):
        if not by.has_perm(permission):
            raise PermissionDenied(f"{by.get_username()} lacks the permission {permission}")
    try:
        reason = clean_reason(reason)
    except InvalidReason as error:
        raise InvalidRequeue(str(error)) from None
    letters = _ended([letter for batch in _batches(ids) for letter in _letters(batch)])
    if not allow_waiting and (waiting := [letter for batch in _batches(letters) for letter in _waiting(batch)]):
        raise WouldWait(waiting)
    request = {"requested_by": by.get_username(), "reason": reason, "request_token": token}
    new = in_transaction(lambda: _write(letters, request, selection))
    results = [result for batch in _batches(letters) for result in _results(batch, new, token)]
    _log(letters, results)
    return results


def requeue_recorded(dead_letter_id: int, *, requested_by: str, reason: str, token: str) -> bool:
    """Requeue a dead letter for a request that has its permission and audit entry; False if it was requeued before."""
    request = {"requested_by": requested_by, "reason": reason, "request_token": token}
    letters = _letters([dead_letter_id])
    return bool(in_transaction(lambda: _insert(letters, request)))


def required_permissions(*, many: bool) -> list[str]:
    return [PERMISSION, BULK_PERMISSION] if many else [PERMISSION]


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


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _letters(ids: Sequence[int]) -> list[DeadLetter]:
    rows = DeadLetter.objects.filter(id__in=ids).select_related("saga", "event", "subscription").order_by("id")
    letters = list(rows.only(*COLUMNS))
    if missing := set(ids) - {letter.id for letter in letters}:
        incomplete = set(DeadLetter.objects.filter(id__in=missing).values_list("id", flat=True))
        if unknown := missing - incomplete:
            raise MissingRow(_("there is no dead letter %(number)s") % {"number": min(unknown)})
        error = _("dead letter %(number)s refers to a delivery, an event or a subscription that does not exist")
        raise MissingRow(error % {"number": min(incomplete)})
    return letters


def _ended(letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """The dead letters whose deliveries have ended; NotEnded if there is none."""
    ended = [letter for letter in letters if letter.saga.status == DEAD_LETTERED]
    if letters and not ended:
        error = _("delivery %(delivery)s of dead letter %(number)s has not ended yet; wait a minute and try again")
        raise NotEnded(error % {"delivery": letters[0].saga_id, "number": letters[0].id})
    return ended


def _waiting(letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """The dead letters without a requeue whose new deliveries would wait."""
    waiting = [letter for letter in letters if not letter.subscription.is_routable]
    requests = Requeue.objects.filter(dead_letter__in=[letter.id for letter in waiting])
    requeued = set(requests.values_list("dead_letter_id", flat=True))
    return [letter for letter in waiting if letter.id not in requeued]


def _write(letters: Sequence[DeadLetter], request: Mapping[str, str], selection: Mapping[str, Any] | None) -> set[int]:
    """Write the records, with their sagas, and the audit entry; returns the dead letters that had no record yet."""
    new = _insert(letters, request)
    if new:
        _record(sorted(new), len(letters), request, selection)
    return new


def _insert(letters: Sequence[DeadLetter], request: Mapping[str, str]) -> set[int]:
    now = clock.now()
    rows = [{"dead_letter_id": letter.id, "requested_at": now, **_policy(letter), **request} for letter in letters]
    inserted = [row for batch in _batches(rows) for row in insert_which(Requeue, batch, key=("dead_letter_id",))]
    new = {row["dead_letter_id"] for row in inserted}
    if new:
        count_requeued(len(new))
    return new


def _record(new: Sequence[int], asked: int, request: Mapping[str, str], selection: Mapping[str, Any] | None) -> None:
    """Write the audit entry."""
    by, reason = request["requested_by"], request["reason"]
    if asked == 1 and selection is None:
        record(actions.REQUEUE, kind="deadletter", id=new[0], by=by, reason=reason)
        return
    action = actions.REQUEUE_MANY if selection is None else actions.REQUEUE_MATCHING
    details = {**(selection or {}), "requeued": len(new), "dead_letters": listed(new)}
    if len(new) < asked:
        details["requeued_before"] = asked - len(new)
    record(action, kind="deadletter", by=by, reason=reason, details=details)


def _policy(letter: DeadLetter) -> dict[str, Any]:
    subscription = letter.subscription
    return RetryPolicy.with_overrides(
        subscription.max_retry_limit, subscription.base_delay, subscription.retry_delays
    )._asdict()


def _results(letters: Sequence[DeadLetter], new: Set[int], token: str) -> list[RequeueResult]:
    sagas = successors(letters)
    results = []
    for request in Requeue.objects.filter(dead_letter__in=letters).order_by("dead_letter"):
        pk, own = request.dead_letter_id, request.request_token == token
        results.append(RequeueResult(pk, sagas[pk], own, request.requested_by, repeated=own and pk not in new))
    return results


def _log(letters: Sequence[DeadLetter], results: Sequence[RequeueResult]) -> None:
    for letter, result in zip(letters, results, strict=True):
        if result.created and not result.repeated:
            log(
                Log.SAGA_REQUEUED,
                correlation_id=letter.event.correlation_id,
                saga_id=result.saga_id,
                dead_letter_id=letter.id,
                delivery_status="Pending",
                requested_by=result.requested_by,
            )
