"""Requeueing many dead letters by what they have in common: looked at first, capped, and safe to repeat.

A dead letter that has been requeued is passed over, so the same request again goes on with those that are left. Those
that die after the start are left to another run: what is requeued to an endpoint that is still down dies again at once,
and would be taken again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from sagas.models import Saga
from trail import actions
from trail.record import record

from .choice import Choice, Position, oldest_first, position
from .models import DeadLetter
from .requeue import Requester, Requeued, requeue_recorded, require, successors

WINDOW = 1000
# Rows that one call looks at before it gives an account and says where to go on.
MOST_EXAMINED = 50_000
MOST_AT_ONCE = 5000
MOST_COUNTED = 10_000
SAMPLE = 10


class Bookmark(NamedTuple):
    """Where to go on: behind this one, and with none that has died since the start, which have higher ids."""

    after: Position
    highest: int


@dataclass
class Preview:
    """What a requeue would take: `more` says that there may be others beyond those counted."""

    count: int = 0
    more: bool = False
    sample: list[DeadLetter] = field(default_factory=list)


@dataclass
class Outcome:
    """`after` is where to go on; None when there is nothing left."""

    requeued: list[Requeued] = field(default_factory=list)
    examined: int = 0
    after: Bookmark | None = None


def preview(choice: Choice, after: Bookmark | None = None) -> Preview:
    result = Preview()
    for window, left in _windows(choice, after, _highest(after)):
        result.sample += left[: SAMPLE - len(result.sample)]
        result.count += len(left)
        if result.count >= MOST_COUNTED:
            return Preview(MOST_COUNTED, True, result.sample)
        result.more = len(window) == WINDOW
    return result


def requeue_matching(
    choice: Choice,
    *,
    by: Requester,
    reason: str,
    limit: int,
    after: Bookmark | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Requeue at most `limit`, the longest dead first. Raises as requeue() does, before anything is written."""
    reason = require(by, reason, many=True)
    outcome = Outcome()
    highest = _highest(after)
    record(
        actions.REQUEUE_MATCHING,
        kind="deadletter",
        name=choice.in_words(),
        by=by.get_username(),
        reason=reason,
        details={
            "choice": {name: value for name, value in asdict(choice).items() if value is not None},
            "limit": limit,
            "up_to": highest,
        },
    )
    for window, left in _windows(choice, after, highest):
        taken = left[: limit - len(outcome.requeued)]
        outcome.requeued += requeue_recorded([letter.id for letter in taken], by=by, reason=reason)
        progress(len(outcome.requeued))
        if len(taken) < len(left):
            outcome.after = Bookmark(position(taken[-1]), highest)
            return outcome
        outcome.examined += len(window)
        outcome.after = Bookmark(position(window[-1]), highest) if len(window) == WINDOW else None
        if len(outcome.requeued) >= limit:
            return outcome
    return outcome


def _highest(bookmark: Bookmark | None) -> int:
    """The id beyond which a dead letter is too new for this run."""
    if bookmark is not None:
        return bookmark.highest
    return DeadLetter.objects.order_by("-id").values_list("id", flat=True).first() or 0


def _windows(
    choice: Choice, bookmark: Bookmark | None, highest: int
) -> Iterator[tuple[list[DeadLetter], list[DeadLetter]]]:
    """Stretches of the table, each with those of it that match and have not been requeued."""
    after = bookmark.after if bookmark else None
    for _ in range(0, MOST_EXAMINED, WINDOW):
        window = oldest_first(choice, after, WINDOW, highest)
        if not window:
            return
        yield window, _not_requeued(choice.keep(window))
        if len(window) < WINDOW:
            return
        after = position(window[-1])


def _not_requeued(letters: list[DeadLetter]) -> list[DeadLetter]:
    # Not by a prefetch: for a thousand rows it is more than the embedded database takes in one expression.
    sagas = Saga.objects.only("generation").in_bulk([letter.saga_id for letter in letters])
    for letter in letters:
        letter.saga = sagas[letter.saga_id]
    done = successors(letters) if letters else {}
    return [letter for letter in letters if letter.id not in done]
