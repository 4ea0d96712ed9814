"""Past events for a subscription that is new or was off."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router

from events.backfill import Backfill, NotRoutable, Position, backfill

from . import pagination, parsing, problems
from .problems import Problem
from .schemas.subscriptions import BackfillIn, BackfillOut
from .subscriptions import MAY_WRITE, Id, found_or_problem

router = Router(tags=["Subscriptions"])
LIST = "backfill"


@router.post(
    "/{subscription_id}/backfill",
    auth=MAY_WRITE,
    response=BackfillOut,
    summary="Deliver past events",
    openapi_extra=problems.documented(404, 409, 411, 413, 415) | parsing.documented(BackfillIn),
)
def fill(request: HttpRequest, subscription_id: Id) -> BackfillOut:
    """Deliveries for the events that this subscription has none for. Go on with `next` until it is null."""
    given = parsing.read(request, BackfillIn)
    found_or_problem(subscription_id)
    if given.until is not None and given.until < given.since:
        raise problems.invalid("until", "lies before since")
    sealed_for = {"subscription": subscription_id, "since": given.since, "until": given.until}
    position = pagination.read(LIST, sealed_for, given.cursor)
    # Without an end the first request's present moment is it, so that the requests come to one.
    until = given.until if position is None else datetime.fromisoformat(position[2])
    try:
        done = backfill(subscription_id, given.since, until, after=_position(position), limit=given.limit)
    except NotRoutable as error:
        raise Problem(409, f"{error}.") from None
    following = pagination.sign(LIST, sealed_for, _sealed(done, done.after)) if done.after else None
    return BackfillOut(examined=done.examined, created=done.created, next=following)


def _sealed(done: Backfill, after: Position) -> list[Any]:
    return [after.created_at.isoformat(), after.id, done.until.isoformat()]


def _position(sealed: list[Any] | None) -> Position | None:
    return None if sealed is None else Position(datetime.fromisoformat(sealed[0]), sealed[1])
