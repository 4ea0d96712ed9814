"""Dead letters: list, show and requeue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any

from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest
from ninja import Header, Path, Query, Router

from deadletters import bulk_requeue
from deadletters.bulk_requeue import Cursor
from deadletters.filters import DeadLetterFilter, Position
from deadletters.models import DeadLetter, Requeue
from deadletters.requeue import InvalidRequeue, NotEnded, WouldWait, requeue
from events.models import Event

from . import pagination, parsing, problems
from .auth import ApiKeyAuth, actor_name, caller_of
from .keys import Caller
from .models import ApiKey
from .schemas.common import Id
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
    """An API key as the requester of a requeue."""

    def __init__(self, key: ApiKey) -> None:
        self._key = key

    def get_username(self) -> str:
        return actor_name(self._key)

    def has_perm(self, perm: str) -> bool:
        return self._key.may(REQUEUE)


@router.get(
    "",
    auth=ApiKeyAuth(READ),
    response=DeadLetters,
    summary="Dead letters, latest failure first",
    openapi_extra=problems.documented(),
)
def list_dead_letters(request: HttpRequest, filters: Query[DeadLetterFilters]) -> DeadLetters:
    """A page may have fewer items than `limit`, or none, and still a `next`. The list ends when `next` is null."""
    pagination.require_known(request, DeadLetterFilters)
    caller = caller_of(request)
    conditions = filters.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    letter_filter = _filter(caller, conditions)
    signed_for = {**conditions, "sees": caller.key.sees}
    cursor = pagination.read(LIST, signed_for, filters.cursor)
    after = Position.from_json(cursor) if cursor else None
    page = pagination.page(
        lambda count: letter_filter.newest_first(after, count),
        filters.limit,
        None if letter_filter.is_indexed else letter_filter.matching,
    )
    following = pagination.sign(LIST, signed_for, Position.of(page.last).as_json()) if page.last else None
    return DeadLetters(items=described(page.rows), next=following)


@router.post(
    "/requeue",
    auth=ApiKeyAuth(REQUEUE),
    response=BulkRequeueOut,
    summary="Requeue all that match a filter",
    openapi_extra=problems.documented(409, 411, 413, 415) | parsing.documented(BulkRequeueIn),
)
def requeue_many(
    request: HttpRequest,
    idempotency_key: str | None = Header(  # type: ignore[type-arg]
        None, alias="Idempotency-Key", max_length=200, description="Makes a repeated request safe."
    ),
) -> BulkRequeueOut:
    """Dead letters that were requeued before are skipped, so the same request again continues with the rest.

    With the same `Idempotency-Key` it requeues what it requeued the first time, and nothing else.
    """
    caller = caller_of(request)
    body = parsing.read(request, BulkRequeueIn)
    token = _token(caller.key, idempotency_key, body)
    conditions = body.model_dump(include=CONDITIONS, exclude_none=True)
    letter_filter = _filter(caller, conditions)
    signed_for = {**conditions, "sees": caller.key.sees}
    position = pagination.read(BULK, signed_for, body.cursor)
    cursor = Cursor.from_json(position) if position else None
    if body.dry_run:
        selection = bulk_requeue.preview(letter_filter, cursor)
        return BulkRequeueOut(
            dry_run=True,
            count=len(selection.letters),
            more=selection.next is not None,
            next=None,
            sample=described(selection.letters[: bulk_requeue.SAMPLE]),
        )
    if body.reason is None:
        raise problems.invalid("reason", "is required unless dry_run is true")
    try:
        result = bulk_requeue.requeue_matching(
            letter_filter,
            by=Program(caller.key),
            reason=body.reason,
            limit=body.limit,
            cursor=cursor,
            token=token,
            allow_waiting=body.allow_waiting,
        )
    except InvalidRequeue as error:
        raise _refused(error) from None
    following = pagination.sign(BULK, signed_for, result.next.as_json()) if result.next else None
    return BulkRequeueOut(dry_run=False, count=result.count, more=result.next is not None, next=following, sample=[])


@router.get(
    "/{dead_letter_id}",
    auth=ApiKeyAuth(READ),
    response=DeadLetterWithPayload,
    summary="A dead letter with its payload",
    openapi_extra=problems.documented(404),
)
def show(request: HttpRequest, dead_letter_id: Annotated[Id, Path()]) -> DeadLetterWithPayload:
    letter = _visible(caller_of(request), dead_letter_id)
    [shown] = described([letter])
    return DeadLetterWithPayload(**shown.model_dump(), payload=json.loads(letter.payload_snapshot))


@router.post(
    "/{dead_letter_id}/requeue",
    auth=ApiKeyAuth(REQUEUE),
    response=RequeueOut,
    summary="Requeue one",
    openapi_extra=problems.documented(404, 409, 411, 413, 415) | parsing.documented(RequeueIn),
)
def requeue_one(request: HttpRequest, dead_letter_id: Annotated[Id, Path()]) -> RequeueOut:
    """Create a new delivery with all its attempts. A repeated request returns the same delivery."""
    caller = caller_of(request)
    body = parsing.read(request, RequeueIn)
    letter = _visible(caller, dead_letter_id)
    try:
        [result] = requeue([letter.id], by=Program(caller.key), reason=body.reason, allow_waiting=body.allow_waiting)
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


def _visible(caller: Caller, pk: int) -> DeadLetter:
    letter = DeadLetter.objects.filter(id=pk).first()
    if letter is None or not DeadLetterFilter(source=caller.key.sees).matching([letter]):
        raise problems.not_found("There is no such dead letter.")
    return letter


def _filter(caller: Caller, conditions: dict[str, Any]) -> DeadLetterFilter:
    return DeadLetterFilter(
        error_code=conditions.get("error_code"),
        subscription_id=conditions.get("subscription"),
        event_type=conditions.get("event_type"),
        since=conditions.get("since"),
        until=conditions.get("until"),
        source=caller.key.sees,
    )


def _token(key: ApiKey, idempotency_key: str | None, body: BulkRequeueIn) -> str | None:
    """The same for the same request with the same key; None without a key."""
    if parsing.not_blank(idempotency_key) is None:
        return None
    text = json.dumps([key.key_id, idempotency_key, body.model_dump(mode="json")], sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:TOKEN_LENGTH]


def _refused(error: InvalidRequeue) -> problems.Problem:
    if isinstance(error, WouldWait):
        return problems.Problem(409, f"Nothing was requeued: {error}. Set allow_waiting to requeue anyway.")
    if isinstance(error, NotEnded):
        return problems.Problem(409, f"Nothing was requeued: {error}.")
    return problems.invalid("reason", str(error).removeprefix("reason "))
