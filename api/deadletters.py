"""Dead letters: looking at them, and having them delivered anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest
from ninja import Header, Path, Query, Router

from deadletters import bulk_requeue
from deadletters.bulk_requeue import Bookmark
from deadletters.filters import Choice, Position, newest_first, position
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import InvalidRequeue, requeue
from events.models import Event

from . import envelopes, pagination, parsing, problems
from .auth import ApiKeyAuth, caller_of, named
from .keys import Caller
from .models import ApiKey
from .schemas.common import Number
from .schemas.deadletters import (
    BulkRequeueIn,
    BulkRequeueOut,
    DeadLetterFilters,
    DeadLetterOut,
    DeadLetters,
    DeadLetterWithPayload,
    RequeueIn,
    RequeueOut,
)
from .scopes import READ, REQUEUE

router = Router(tags=["Dead letters"])
LIST, BULK = "dead-letters", "bulk-requeue"
TOKEN_LENGTH = 32
CONDITIONS = {"error_code", "subscription", "event_type", "since", "until"}


class Program:
    """A key as somebody who asks for a requeue; what it is called is kept with the dead letter."""

    def __init__(self, key: ApiKey) -> None:
        self._key = key

    def get_username(self) -> str:
        return named(self._key)

    def has_perm(self, perm: str) -> bool:
        return self._key.may(REQUEUE)


@router.get(
    "",
    auth=ApiKeyAuth(READ),
    response=DeadLetters,
    summary="Dead letters, the latest failures first",
    openapi_extra=problems.documented(),
)
def list_dead_letters(request: HttpRequest, filters: Query[DeadLetterFilters]) -> DeadLetters:
    """A page may hold fewer than `limit`, or none, and still have a `next`: it ends when `next` is null."""
    pagination.require_known(request, DeadLetterFilters)
    caller = caller_of(request)
    conditions = filters.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    chosen = _choice(caller, conditions)
    sealed_for = {**conditions, "sees": caller.key.sees}
    after = _position(pagination.read(LIST, sealed_for, filters.cursor))
    found = pagination.page(
        lambda most: newest_first(chosen, after, most),
        filters.limit,
        None if chosen.is_indexed else chosen.keep,
    )
    following = pagination.sign(LIST, sealed_for, _place(found.last)) if found.last else None
    return DeadLetters(items=described(found.rows), next=following)


@router.post(
    "/requeue",
    auth=ApiKeyAuth(REQUEUE),
    response=BulkRequeueOut,
    summary="Requeue many, by what they have in common",
    openapi_extra=problems.documented(411, 413, 415) | parsing.documented(BulkRequeueIn),
)
def requeue_many(
    request: HttpRequest,
    idempotency_key: str | None = Header(  # type: ignore[type-arg]
        None, alias="Idempotency-Key", max_length=200, description="Makes the same request again the same request."
    ),
) -> BulkRequeueOut:
    """Those that were requeued before are passed over: the same request again goes on with what is left.

    Not so under the same `Idempotency-Key`: then it takes what it took the first time, and nothing else.
    """
    caller = caller_of(request)
    given = parsing.read(request, BulkRequeueIn)
    token = _token(caller.key, idempotency_key, given)
    conditions = given.model_dump(include=CONDITIONS, exclude_none=True)
    chosen = _choice(caller, conditions)
    sealed_for = {**conditions, "sees": caller.key.sees}
    after = _bookmark(pagination.read(BULK, sealed_for, given.cursor))
    if given.dry_run:
        preview = bulk_requeue.preview(chosen, after)
        return BulkRequeueOut(
            dry_run=True, count=preview.count, more=preview.more, next=None, sample=described(preview.sample)
        )
    if given.reason is None:
        raise problems.invalid("reason", "is missing; say why these are to be delivered anew")
    try:
        outcome = bulk_requeue.requeue_matching(
            chosen, by=Program(caller.key), reason=given.reason, limit=given.limit, after=after, token=token
        )
    except InvalidRequeue as error:
        raise _refused(error) from None
    following = pagination.sign(BULK, sealed_for, _marked(outcome.after)) if outcome.after else None
    # Of two who ask at the same moment each counts what is theirs.
    count = sum(result.is_delivered_now for result in outcome.requeued)
    return BulkRequeueOut(dry_run=False, count=count, more=outcome.after is not None, next=following, sample=[])


@router.get(
    "/{dead_letter_id}",
    auth=ApiKeyAuth(READ),
    response=DeadLetterWithPayload,
    summary="A dead letter with its payload",
    openapi_extra=problems.documented(404),
)
def show(request: HttpRequest, dead_letter_id: Annotated[Number, Path()]) -> DeadLetterWithPayload:
    letter = _visible(caller_of(request), dead_letter_id)
    [shown] = described([letter])
    return DeadLetterWithPayload(**shown.model_dump(), payload=json.loads(letter.payload_snapshot))


@router.post(
    "/{dead_letter_id}/requeue",
    auth=ApiKeyAuth(REQUEUE),
    response=RequeueOut,
    summary="Requeue one",
    openapi_extra=problems.documented(404, 411, 413, 415) | parsing.documented(RequeueIn),
)
def requeue_one(request: HttpRequest, dead_letter_id: Annotated[Number, Path()]) -> RequeueOut:
    """A new delivery with all its attempts; what has failed stays on record. Asked again, it says which it was."""
    caller = caller_of(request)
    given = parsing.read(request, RequeueIn)
    letter = _visible(caller, dead_letter_id)
    try:
        [result] = requeue([letter.id], by=Program(caller.key), reason=given.reason)
    except InvalidRequeue as error:
        raise _refused(error) from None
    return RequeueOut(
        dead_letter=letter.id, delivery=result.saga_id, created=result.created, requested_by=result.requested_by
    )


def described(letters: Sequence[DeadLetter]) -> list[DeadLetterOut]:
    prefetch_related_objects(letters, Prefetch("event", Event.objects.defer("payload")))
    requests = {request.dead_letter_id: request for request in Requeue.objects.filter(dead_letter__in=letters)}
    return [_described(letter, requests.get(letter.id)) for letter in letters]


def _described(letter: DeadLetter, request: Requeue | None) -> DeadLetterOut:
    return DeadLetterOut(
        id=letter.id,
        delivery=letter.saga_id,
        event=letter.event.uid,
        event_type=letter.event.event_type,
        correlation_id=letter.event.correlation_id,
        subscription=letter.subscription_id,
        error_code=letter.final_error_code,
        failed_at=letter.failed_at,
        requeued_by=request.requested_by if request else None,
        requeued_at=request.requested_at if request else None,
        requeue_reason=request.reason if request else None,
    )


def _visible(caller: Caller, number: int) -> DeadLetter:
    letter = DeadLetter.objects.filter(id=number).first()
    if letter is None or not Choice(source=caller.key.sees).keep([letter]):
        raise problems.not_found("There is no such dead letter.")
    return letter


def _choice(caller: Caller, conditions: dict[str, Any]) -> Choice:
    return Choice(
        error_code=conditions.get("error_code"),
        subscription_id=conditions.get("subscription"),
        event_type=conditions.get("event_type"),
        since=conditions.get("since"),
        until=conditions.get("until"),
        source=caller.key.sees,
    )


def _token(key: ApiKey, idempotency_key: str | None, given: BulkRequeueIn) -> str | None:
    """One for each request that a program tells from its others by a key."""
    if envelopes.not_blank(idempotency_key) is None:
        return None
    text = json.dumps([key.key_id, idempotency_key, given.model_dump(mode="json")], sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:TOKEN_LENGTH]


def _refused(error: InvalidRequeue) -> problems.Problem:
    return problems.invalid("reason", str(error).removeprefix("reason "))


def _place(letter: DeadLetter) -> list[Any]:
    return _sealed(position(letter))


def _sealed(position: Position) -> list[Any]:
    return [position.failed_at.isoformat(), position.id]


def _position(sealed: list[Any] | None) -> Position | None:
    return None if sealed is None else Position(datetime.fromisoformat(sealed[0]), sealed[1])


def _marked(bookmark: Bookmark) -> list[Any]:
    return [*_sealed(bookmark.after), bookmark.highest]


def _bookmark(sealed: list[Any] | None) -> Bookmark | None:
    position = _position(sealed)
    return None if sealed is None or position is None else Bookmark(position, sealed[2])
