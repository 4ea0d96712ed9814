"""Trying a dead letter's delivery anew: a brand-new saga of the next generation; the old one stays as it is.

The request is recorded before the saga is made, each under a unique key. Two people, or two tries of one request,
make one saga; a request cut short in between is completed by whoever asks again. The trail is told together with the
record: once, of what is new in it, and of a request that finds everything done before, nothing.

One that is recorded and has no saga may be a colleague's of this very moment: it is helped to its saga and stays the
colleague's. Only when it is older than any that is still at work it was cut short, and whoever completes it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

from sagas import create
from sagas.create import NewSaga
from sagas.models import Saga
from sagas.policy import RetryPolicy
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import listed, record
from webhookhub.db import clock
from webhookhub.db.bulk import insert_new
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_token
from webhookhub.logs import Fact, log
from webhookhub.validators import InvalidReason, clean_reason

from .models import DeadLetter, Requeue

PERMISSION = "deadletters.requeue_deadletter"
BULK_PERMISSION = "deadletters.bulk_requeue_deadletter"
BATCH = 500
# So long after its record a request without its delivery is not at work any more: longer than it may wait for a lock,
# and try again. A younger one gets its delivery from whoever asks next, and stays its author's.
CUT_SHORT_AFTER = timedelta(minutes=5)
NEEDED_COLUMNS = (
    "saga__generation",
    "event__correlation_id",
    "subscription__max_retry_limit",
    "subscription__base_delay",
)


class Requester(Protocol):
    """Whoever asks: a user of the console, or an operator at the command line."""

    def get_username(self) -> str: ...

    def has_perm(self, perm: str) -> bool: ...


@dataclass(frozen=True)
class Requeued:
    """What became of one dead letter's request.

    `created` is False when it was requested before; `completed` if that had been cut short, and is delivered now.
    """

    dead_letter_id: int
    saga_id: int
    created: bool
    requested_by: str
    completed: bool = False

    @property
    def is_delivered_now(self) -> bool:
        return self.created or self.completed

    def __str__(self) -> str:
        if self.is_delivered_now:
            return f"dead letter {self.dead_letter_id} is delivered anew as delivery {self.saga_id}"
        return (
            f"dead letter {self.dead_letter_id} was requeued before by {self.requested_by}, as delivery {self.saga_id}"
        )


class InvalidRequeue(ValueError):
    """The request is not acceptable; nothing was written."""


class Told(NamedTuple):
    """What the trail calls a request; what came of it is added."""

    action: str
    name: str
    details: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Outcome:
    """One answer for each dead letter, and how many of them this call was the first to ask for, or has completed."""

    requeued: list[Requeued]
    new: int


def requeue(dead_letter_ids: Sequence[int], *, by: Requester, reason: str) -> list[Requeued]:
    """Requeue dead letters; one answer each, in the order of their ids. Unknown ids raise InvalidRequeue."""
    wanted = sorted(set(dead_letter_ids))
    reason = require(by, reason, many=len(wanted) > 1)
    if len(wanted) == 1:
        told = Told(actions.REQUEUE, f"dead letter {wanted[0]}")
    else:
        told = Told(actions.REQUEUE_MANY, f"{len(wanted)} dead letters")
    return carry_out(wanted, by=by, reason=reason, told=told).requeued


def carry_out(
    dead_letter_ids: Sequence[int],
    *,
    by: Requester,
    reason: str,
    told: Told,
    token: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """For whoever has asked `require`. Under the same `token` it is the same request: what it did, it is told again."""
    wanted, token = sorted(set(dead_letter_ids)), token or new_token()
    batches = [_letters(wanted[start : start + BATCH]) for start in range(0, len(wanted), BATCH)]
    new, completed = in_transaction(lambda: _record(batches, by.get_username(), reason, token, told))
    requeued: list[Requeued] = []
    for letters in batches:
        requeued += _deliver(letters, token, completed)
        progress(len(requeued))
    return Outcome(requeued, new + len(completed))


def require(by: Requester, reason: str, *, many: bool) -> str:
    """The reason, trimmed; PermissionDenied or InvalidRequeue if this requester may not, or says not why."""
    lacking = [permission for permission in needed(many=many) if not by.has_perm(permission)]
    if lacking:
        raise PermissionDenied(f"{by.get_username()} lacks the permission {lacking[0]}")
    try:
        return clean_reason(reason)
    except InvalidReason as error:
        raise InvalidRequeue(str(error)) from None


def needed(*, many: bool) -> list[str]:
    """The permissions to requeue one, or more than one at once."""
    return [PERMISSION, BULK_PERMISSION] if many else [PERMISSION]


def _letters(ids: Sequence[int]) -> list[DeadLetter]:
    letters = DeadLetter.objects.filter(id__in=ids).select_related("saga", "event", "subscription").order_by("id")
    # What is needed and no more: an operator's database role does not read a subscription's secrets.
    found = list(letters.only(*NEEDED_COLUMNS))
    missing = set(ids) - {letter.id for letter in found}
    if missing:
        raise InvalidRequeue(_("there is no dead letter %(number)s") % {"number": min(missing)})
    return found


class Recorded(NamedTuple):
    """How many nobody had asked for before, and the dead letters whose request, cut short, was completed."""

    new: int
    completed: set[int]


def _record(batches: Sequence[Sequence[DeadLetter]], username: str, reason: str, token: str, told: Told) -> Recorded:
    """Who asked, and the trail's entry, in one transaction; with it what completes others' requests."""
    now = clock.now()
    given = {"requested_by": username, "requested_at": now, "reason": reason, "request_token": token}
    new = sum(
        insert_new(Requeue, [{"dead_letter_id": letter.id, **given} for letter in letters], key=("dead_letter_id",))
        for letters in batches
    )
    ids = [letter.id for letters in batches for letter in letters]
    completed: set[int] = set()
    if new < len(ids):
        completed = {id for letters in batches for id in _complete(letters, now - CUT_SHORT_AFTER, token)}
    if new or completed:
        one = ids[0] if told.action == actions.REQUEUE else None
        details = {**told.details, **({} if one else _came_of_it(ids, new, token))}
        if completed:
            details["completed"] = len(completed)
        record(told.action, kind="deadletter", id=one, name=told.name, by=username, reason=reason, details=details)
    return Recorded(new, completed)


def _complete(letters: Sequence[DeadLetter], recorded_before: datetime, token: str) -> set[int]:
    """Make the sagas of others' requests that were cut short; those that this call, and no other, has made."""
    requests = Requeue.objects.filter(dead_letter__in=letters, requested_at__lt=recorded_before)
    old = set(requests.exclude(request_token=token).values_list("dead_letter_id", flat=True))
    done = successors([letter for letter in letters if letter.id in old]) if old else {}
    return _bear([letter for letter in letters if letter.id in old - done.keys()])


def _came_of_it(ids: Sequence[int], new: int, token: str) -> dict[str, Any]:
    if new == len(ids):
        return {"requeued": new, "dead_letters": listed(ids)}
    batches = (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
    own = Requeue.objects.filter(request_token=token).order_by("dead_letter").values_list("dead_letter_id", flat=True)
    mine = [id for batch in batches for id in own.filter(dead_letter__in=batch)]
    return {"requeued": new, "requeued_before": len(ids) - new, "dead_letters": listed(mine)}


def _deliver(letters: Sequence[DeadLetter], token: str, completed: AbstractSet[int]) -> list[Requeued]:
    before = successors(letters)
    born = _bear([letter for letter in letters if letter.id not in before]) | completed
    after = successors(letters)
    requests = {request.dead_letter_id: request for request in Requeue.objects.filter(dead_letter__in=letters)}
    results = []
    for letter in letters:
        request, saga_id = requests[letter.id], after[letter.id]
        # Whoever recorded the request is its author, even when another, asking meanwhile, made the saga for it:
        # of many who ask at once, exactly one is told that the delivery is theirs.
        created = request.request_token == token
        results.append(Requeued(letter.id, saga_id, created, request.requested_by, letter.id in completed))
        if letter.id in born:
            log(
                Fact.SAGA_REQUEUED,
                correlation_id=letter.event.correlation_id,
                saga_id=saga_id,
                dead_letter_id=letter.id,
                delivery_status="Pending",
                requested_by=request.requested_by,
            )
    return results


def _bear(letters: Sequence[DeadLetter]) -> set[int]:
    """Those whose saga was made here."""
    of_letters = {letter.id: _birth(letter) for letter in letters}
    born = create.insert(list(of_letters.values()), BATCH)
    return {id for id, birth in of_letters.items() if birth.key in born}


def _birth(letter: DeadLetter) -> NewSaga:
    policy = RetryPolicy.with_overrides(letter.subscription.max_retry_limit, letter.subscription.base_delay)
    return NewSaga(letter.event_id, letter.subscription_id, letter.saga.generation + 1, policy)


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
