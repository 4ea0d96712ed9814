"""Requeueing many dead letters by what they have in common: looked at first, capped, and safe to repeat.

A dead letter that has been requeued is passed over, so whoever asks anew goes on with those that are left. Those that
die after the start are left to another run: what is requeued to an endpoint that is still down dies again at once,
and would be taken again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sagas.models import Saga
from webhookhub.auditlog import actions

from .filters import Choice, Position, oldest_first, position
from .models import DeadLetter, Requeue
from .requeue import Requester, Requeued, Told, carry_out, require, successors

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
    after: Bookmark | None = None


def preview(choice: Choice, after: Bookmark | None = None) -> Preview:
    result = Preview()
    for window, kept in _windows(choice, after, _highest(after)):
        left = _not_requeued(kept)
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
    token: str | None = None,
    part: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Requeue at most `limit`, the longest dead first. Raises as requeue() does, before anything is written.

    With the `token` of an earlier request it is the same one: what that took is taken again, and nothing else.
    """
    reason = require(by, reason, many=True)
    highest = _highest(after)
    chosen, following = _choose(choice, limit, after, highest, token)
    if not chosen:
        return Outcome(after=following)
    told = told_of(choice, limit=limit, **({"part": part} if part else {}))
    done = carry_out(chosen, by=by, reason=reason, told=told, token=token, progress=progress)
    return Outcome(done.requeued, following)


def told_of(choice: Choice, **details: Any) -> Told:
    return Told(actions.REQUEUE_MATCHING, {"choice": choice.as_facts(), **details})


def _choose(
    choice: Choice, limit: int, after: Bookmark | None, highest: int, token: str | None
) -> tuple[list[int], Bookmark | None]:
    """Which, and where to go on."""
    chosen: list[DeadLetter] = []
    own: set[int] = set()
    following: Bookmark | None = None
    for window, kept in _windows(choice, after, highest):
        before = _requested_by(token, kept)
        own |= before
        left = {letter.id for letter in _not_requeued(kept)} | before
        taken = [letter for letter in kept if letter.id in left][: limit - len(chosen)]
        chosen += taken
        if len(taken) < len(left):
            following = Bookmark(position(taken[-1]), highest)
            break
        following = Bookmark(position(window[-1]), highest) if len(window) == WINDOW else None
        if len(chosen) >= limit:
            break
    # What a request takes is recorded all at once: if some of it is there, all of it is, and the rest is not its own.
    return [letter.id for letter in chosen if not own or letter.id in own], following


def _requested_by(token: str | None, letters: list[DeadLetter]) -> set[int]:
    if token is None:
        return set()
    ids = [letter.id for letter in letters]
    own = Requeue.objects.filter(dead_letter__in=ids, request_token=token)
    return set(own.values_list("dead_letter_id", flat=True))


def _highest(bookmark: Bookmark | None) -> int:
    """The id beyond which a dead letter is too new for this run."""
    if bookmark is not None:
        return bookmark.highest
    return DeadLetter.objects.order_by("-id").values_list("id", flat=True).first() or 0


def _windows(
    choice: Choice, bookmark: Bookmark | None, highest: int
) -> Iterator[tuple[list[DeadLetter], list[DeadLetter]]]:
    """Stretches of the table, each with those of it that match."""
    after = bookmark.after if bookmark else None
    for _ in range(0, MOST_EXAMINED, WINDOW):
        window = oldest_first(choice, after, WINDOW, highest)
        if not window:
            return
        yield window, choice.keep(window)
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
