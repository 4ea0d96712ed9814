"""Dead letters: list, show and requeue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated

from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest
from ninja import Header, Path, Query

from deadletters import bulk_requeue
from deadletters.bulk_requeue import Cursor
from deadletters.filters import DeadLetterFilter, Position
from deadletters.models import DeadLetter
from deadletters.requeue import InvalidRequeue, MissingRow, NotEnded, WouldWait, requeue
from events.models import Event

from . import pagination, parsing, problems
from .auth import ApiKeyAuth, actor_name, caller_of
from .keys import Caller
from .models import ApiKey
from .resource import Resource
from .schemas.common import Id, payload_fields
from .schemas.deadletters import (
    BulkRequeueIn,
    BulkRequeueOut,
    Conditions,
    DeadLetterFilters,
    DeadLetterOut,
    DeadLetters,
    DeadLetterWithPayload,
    RequeueIn,
    RequeueOut,
)
from .scopes import READ, REQUEUE

resource = Resource("Dead letters", read=ApiKeyAuth(READ), write=ApiKeyAuth(REQUEUE))
LIST, BULK = "dead-letters", "bulk-requeue"
TOKEN_LENGTH = 32
PathId = Annotated[Id, Path()]


class KeyRequester:
    """An API key as the requester of a requeue."""

    def __init__(self, key: ApiKey) -> None:
        self._key = key

    def get_username(self) -> str:
        return actor_name(self._key)

    def has_perm(self, perm: str) -> bool:
        return self._key.has_scope(REQUEUE)


@resource.get("", DeadLetters, "List dead letters, latest failure first")
def list_dead_letters(request: HttpRequest, filters: Query[DeadLetterFilters]) -> DeadLetters:
    """A page may have fewer items than `limit`, or none, and still have a `next`. The list ends when `next` is null."""
    pagination.require_known(request, DeadLetterFilters)
    caller = caller_of(request)
    letter_filter = _filter(caller, filters)
    conditions = {**filters.conditions, "source": caller.key.readable_source, "owner": caller.key.only_customer}
    position = pagination.read(LIST, conditions, filters.cursor)
    after = Position.from_json(position) if position else None
    page = pagination.page(
        lambda limit: letter_filter.newest_first(after, limit),
        filters.limit,
        None if letter_filter.is_indexed else letter_filter.matching,
    )
    next_cursor = pagination.sign(LIST, conditions, Position.of(page.last).as_json()) if page.last else None
    return DeadLetters(items=_described(page.rows), next=next_cursor)


@resource.post("/requeue", BulkRequeueOut, "Requeue all dead letters that match a filter", 409, body=BulkRequeueIn)
def requeue_many(
    request: HttpRequest,
    idempotency_key: str | None = Header(  # type: ignore[type-arg]
        None, alias="Idempotency-Key", max_length=200, description="Makes a repeated request safe."
    ),
) -> BulkRequeueOut:
    """Dead letters that were requeued before are skipped, so the same request again continues with the rest.

    With the same `Idempotency-Key` it returns what it requeued the first time; if that was nothing, it starts again.
    """
    caller = caller_of(request)
    body = parsing.read(request, BulkRequeueIn)
    token = _token(caller.key, idempotency_key, body)
    letter_filter = _filter(caller, body)
    conditions = {**body.conditions, "source": caller.key.readable_source, "owner": caller.key.only_customer}
    position = pagination.read(BULK, conditions, body.cursor)
    cursor = Cursor.from_json(position) if position else None
    if body.dry_run:
        selection = bulk_requeue.preview(letter_filter, cursor)
        sample = _described(selection.letters[: bulk_requeue.SAMPLE])
        count, more = len(selection.letters), selection.next is not None
        not_ended = selection.not_ended
        return BulkRequeueOut(dry_run=True, count=count, not_ended=not_ended, more=more, next=None, sample=sample)
    if body.reason is None:
        raise problems.invalid("reason", "is required unless dry_run is true")
    by = KeyRequester(caller.key)
    try:
        result = bulk_requeue.requeue_matching(
            letter_filter,
            by=by,
            reason=body.reason,
            limit=body.limit,
            cursor=cursor,
            token=token,
            allow_waiting=body.allow_waiting,
        )
    except InvalidRequeue as error:
        raise _problem(error) from None
    next_cursor = pagination.sign(BULK, conditions, result.next.as_json()) if result.next else None
    return BulkRequeueOut(
        dry_run=False,
        count=result.count,
        not_ended=result.not_ended,
        more=result.next is not None,
        next=next_cursor,
        sample=[],
    )


@resource.get("/{dead_letter_id}", DeadLetterWithPayload, "Show a dead letter with its payload", 404)
def show(request: HttpRequest, dead_letter_id: PathId) -> DeadLetterWithPayload:
    letter = _get_or_404(caller_of(request), dead_letter_id)
    [shown] = _described([letter])
    return DeadLetterWithPayload(**shown.model_dump(), **payload_fields(letter.payload_snapshot))


@resource.post("/{dead_letter_id}/requeue", RequeueOut, "Requeue a dead letter", 404, 409, body=RequeueIn)
def requeue_one(request: HttpRequest, dead_letter_id: PathId) -> RequeueOut:
    """Create a new delivery with all its attempts. A repeated request returns the same delivery."""
    caller = caller_of(request)
    body = parsing.read(request, RequeueIn)
    letter = _get_or_404(caller, dead_letter_id)
    try:
        by = KeyRequester(caller.key)
        [result] = requeue([letter.id], by=by, reason=body.reason, allow_waiting=body.allow_waiting)
    except InvalidRequeue as error:
        raise _problem(error) from None
    return RequeueOut.model_validate(result)


def _get_or_404(caller: Caller, pk: int) -> DeadLetter:
    letter = DeadLetter.objects.filter(id=pk).first()
    visible = DeadLetterFilter(source=caller.key.readable_source, owner=caller.key.only_customer)
    if letter is None or not visible.matching([letter]):
        raise problems.not_found("This dead letter does not exist.")
    return letter


def _described(letters: Sequence[DeadLetter]) -> list[DeadLetterOut]:
    prefetch_related_objects(letters, Prefetch("event", Event.objects.defer("payload")), "requeue")
    return [DeadLetterOut.model_validate(letter) for letter in letters]


def _filter(caller: Caller, conditions: Conditions) -> DeadLetterFilter:
    return DeadLetterFilter(
        error_code=conditions.error_code,
        subscription_id=conditions.subscription,
        event_type=conditions.event_type,
        since=conditions.since,
        until=conditions.until,
        customer=conditions.customer,
        source=caller.key.readable_source,
        owner=caller.key.only_customer,
    )


def _token(key: ApiKey, idempotency_key: str | None, body: BulkRequeueIn) -> str | None:
    """The same for the same request with the same key; None without a key."""
    if parsing.not_blank(idempotency_key) is None:
        return None
    text = json.dumps([key.key_id, idempotency_key, body.model_dump(mode="json")], sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:TOKEN_LENGTH]


def _problem(error: InvalidRequeue) -> problems.Problem:
    if isinstance(error, WouldWait):
        return problems.Problem(409, f"Nothing was requeued: {error}. Set allow_waiting to requeue anyway.")
    if isinstance(error, NotEnded | MissingRow):
        return problems.Problem(409, f"Nothing was requeued: {error}.")
    return problems.invalid("reason", str(error).removeprefix("reason "))
