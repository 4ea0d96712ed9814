"""Requeue the dead letters that match a filter: with a preview, a limit and a cursor, and safe to repeat.

Dead letters that were requeued before are skipped, so a repeated call continues with the rest. So are those whose
deliveries have not ended yet; they are counted. Each statement reads a bounded window of one index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sagas.models import Saga
from sagas.transitions import DEAD_LETTERED

from .filters import DeadLetterFilter, Position
from .models import DeadLetter, Requeue
from .requeue import Requester, RequeueResult, requeue

WINDOW = 1000
# Rows that one call examines; then it returns what it has, with a cursor.
MAX_EXAMINED = 50_000
MAX_LIMIT = 5000
MAX_COUNTED = 10_000
SAMPLE = 10


class Cursor(NamedTuple):
    """Where a bulk requeue continues.

    Ids above `max_id` are excluded: a delivery that dies again during the requeue must not be requeued again.
    """

    after: Position | None
    max_id: int

    def as_json(self) -> list[Any]:
        return [self.after and self.after.as_json(), self.max_id]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Cursor:
        after, max_id = values
        return cls(after and Position.from_json(after), max_id)


@dataclass(frozen=True)
class Selection:
    """The dead letters to requeue, oldest failure first; `next` is None if there are no more.

    `not_ended`: how many others match whose deliveries have not ended yet; a later requeue finds them.
    """

    letters: list[DeadLetter]
    next: Cursor | None
    not_ended: int = 0


class Part(NamedTuple):
    """Which part of a longer requeue this is; the total is None if it is unknown."""

    number: int
    total: int | None = None


@dataclass(frozen=True)
class BulkResult:
    """`next` is None if there are no more; `not_ended` as in Selection."""

    results: list[RequeueResult]
    next: Cursor | None
    not_ended: int = 0

    @property
    def count(self) -> int:
        """How many this request has requeued."""
        return sum(result.created for result in self.results)


def preview(letter_filter: DeadLetterFilter, cursor: Cursor | None = None, limit: int | None = None) -> Selection:
    """What requeue_matching() would requeue, up to `limit` or MAX_COUNTED."""
    return _select(letter_filter, limit or MAX_COUNTED, cursor)


def requeue_matching(
    letter_filter: DeadLetterFilter,
    *,
    by: Requester,
    reason: str,
    limit: int,
    cursor: Cursor | None = None,
    token: str | None = None,
    part: Part | None = None,
    allow_waiting: bool = False,
) -> BulkResult:
    """Requeue at most `limit` dead letters, oldest failure first. Raises as requeue() does.

    A call with the `token` and the cursor of an earlier one selects the same dead letters.
    """
    selection = _select(letter_filter, limit, cursor, token)
    ids = [letter.id for letter in selection.letters]
    details = audit_details(letter_filter.as_json(), limit, part)
    results = requeue(ids, by=by, reason=reason, selection=details, token=token, allow_waiting=allow_waiting)
    return BulkResult(results, selection.next, selection.not_ended)


def audit_details(conditions: dict[str, Any], limit: int, part: Part | None) -> dict[str, Any]:
    """How dead letters were selected, for the audit log."""
    details = {"filter": conditions, "limit": limit}
    if part is not None:
        details |= {"part": part.number} | ({"parts": part.total} if part.total else {})
    return details


def _select(letter_filter: DeadLetterFilter, limit: int, cursor: Cursor | None, token: str | None = None) -> Selection:
    start = cursor or _start()
    if start is None:
        return Selection([], None)
    after, more = start.after, True
    letters: list[DeadLetter] = []
    own: set[int] = set()
    not_ended = 0
    for _ in range(0, MAX_EXAMINED, WINDOW):
        window = letter_filter.oldest_first(after, WINDOW, start.max_id)
        pending, recorded = _pending(letter_filter.matching(window), token)
        own |= recorded
        unended = _unended(pending)
        ended = [letter for letter in pending if letter.saga_id not in unended]
        taken = ended[: limit - len(letters)]
        letters += taken
        if len(taken) < len(ended):
            after = Position.of(taken[-1])
            not_ended += pending.index(taken[-1]) + 1 - len(taken)
            break
        not_ended += len(unended)
        more = len(window) == WINDOW
        if not more:
            break
        after = Position.of(window[-1])
        if len(letters) >= limit:
            break
    # A request is recorded in one transaction: if some dead letters are its own, the others are not part of it.
    selected = [letter for letter in letters if not own or letter.id in own]
    return Selection(selected, start._replace(after=after) if more else None, not_ended)


def _start() -> Cursor | None:
    """Before the oldest failure; None if there is no dead letter."""
    max_id = DeadLetter.objects.order_by("-id").values_list("id", flat=True).first()
    return None if max_id is None else Cursor(None, max_id)


def _unended(letters: Sequence[DeadLetter]) -> set[int]:
    """The sagas that have their dead letter and are not DeadLettered yet."""
    sagas = Saga.objects.filter(id__in=[letter.saga_id for letter in letters])
    return set(sagas.exclude(status=DEAD_LETTERED).values_list("id", flat=True))


def _pending(letters: Sequence[DeadLetter], token: str | None) -> tuple[list[DeadLetter], set[int]]:
    """The dead letters still to be requeued, and those that the request with this token has recorded.

    Its own count as pending: a repeated request returns them again.
    """
    requests = Requeue.objects.filter(dead_letter__in=[letter.id for letter in letters])
    tokens = dict(requests.values_list("dead_letter_id", "request_token"))
    own = {pk for pk, request_token in tokens.items() if request_token == token}
    return [letter for letter in letters if letter.id not in tokens or letter.id in own], own
