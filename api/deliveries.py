"""Deliveries and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest
from ninja import Path, Query, Router

from deadletters.models import DeadLetter
from events import lookup
from events.models import Event
from jobs.models import Job
from sagas.filters import DeliveryFilter
from sagas.models import Saga
from sagas.transitions import WAITING

from . import pagination, problems
from .auth import ApiKeyAuth, caller_of
from .keys import Caller
from .schemas.common import Id
from .schemas.deliveries import Attempt, Deliveries, Delivery, DeliveryFilters, DeliveryWithAttempts
from .scopes import READ

router = Router(tags=["Deliveries"])
LIST = "deliveries"
MAX_EVENTS = 1000


@router.get(
    "",
    auth=ApiKeyAuth(READ),
    response=Deliveries,
    summary="List deliveries, newest first",
    openapi_extra=problems.documented(),
)
def list_deliveries(request: HttpRequest, filters: Query[DeliveryFilters]) -> Deliveries:
    """A page may have fewer items than `limit`, or none, and still have a `next`. The list ends when `next` is null."""
    pagination.require_known(request, DeliveryFilters)
    conditions = filters.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    return Deliveries(**_page(caller_of(request), conditions, filters.limit, filters.cursor))


@router.get(
    "/{saga_id}",
    auth=ApiKeyAuth(READ),
    response=DeliveryWithAttempts,
    summary="Show a delivery with its attempts",
    openapi_extra=problems.documented(404),
)
def show(request: HttpRequest, saga_id: Annotated[Id, Path()]) -> DeliveryWithAttempts:
    caller = caller_of(request)
    saga = Saga.objects.filter(id=saga_id).first()
    if saga is None or not visible([saga], caller):
        raise problems.not_found("This delivery does not exist.")
    [delivery] = described([saga])
    dead_letter_id = DeadLetter.objects.filter(saga_id=saga.id).values_list("id", flat=True).first()
    attempts = [_attempt(job, caller) for job in Job.objects.filter(saga_id=saga.id).order_by("attempt_no")]
    return DeliveryWithAttempts(**delivery.model_dump(), attempts=attempts, dead_letter=dead_letter_id)


def of_event(event: Event, caller: Caller) -> tuple[list[Delivery], str | None]:
    """The first page of an event's deliveries, and the cursor that leads on."""
    page = _page(caller, {"event": event.uid}, pagination.MAX_LIMIT, None)
    return page["items"], page["next"]


def visible(sagas: Sequence[Saga], caller: Caller) -> list[Saga]:
    """The deliveries that the caller may see."""
    return DeliveryFilter(source=caller.key.sees).matching(sagas)


def described(sagas: Sequence[Saga]) -> list[Delivery]:
    prefetch_related_objects(sagas, Prefetch("event", Event.objects.defer("payload")))
    return [
        Delivery(
            id=saga.id,
            status=saga.status,
            event=saga.event.uid,
            event_type=saga.event.event_type,
            correlation_id=saga.event.correlation_id,
            subscription=saga.subscription_id,
            generation=saga.generation,
            attempt_count=saga.attempt_count,
            max_retry_limit=saga.max_retry_limit,
            next_attempt_at=saga.next_attempt_at if saga.status in WAITING else None,
            error_code=saga.final_error_code,
            created_at=saga.created_at,
            updated_at=saga.updated_at,
        )
        for saga in sagas
    ]


def _page(caller: Caller, conditions: dict[str, Any], limit: int, cursor: str | None) -> dict[str, Any]:
    signed_for = {**conditions, "sees": caller.key.sees}
    position = pagination.read(LIST, signed_for, cursor)
    delivery_filter = _filter(caller, conditions)
    # Found once and carried along in the cursor.
    lowest, before = position if position else delivery_filter.bounds()
    page = pagination.page(
        lambda count: delivery_filter.newest_first(lowest, before, count),
        limit,
        None if delivery_filter.is_indexed else delivery_filter.matching,
    )
    following = pagination.sign(LIST, signed_for, [lowest, page.last.id]) if page.last else None
    return {"items": described(page.rows), "next": following}


def _filter(caller: Caller, conditions: dict[str, Any]) -> DeliveryFilter:
    return DeliveryFilter(
        status=conditions.get("status"),
        subscription_id=conditions.get("subscription"),
        event_ids=_event_ids(caller, conditions),
        event_type=conditions.get("event_type"),
        source=caller.key.sees,
        since=conditions.get("since"),
        until=conditions.get("until"),
    )


def _event_ids(caller: Caller, conditions: dict[str, Any]) -> list[int] | None:
    """The ids of the events with this uid or correlation id; None if neither is given."""
    uid, correlation_id = conditions.get("event"), conditions.get("correlation_id")
    if uid is not None:
        events = Event.objects.filter(uid=uid)
        if correlation_id is not None:
            events = events.filter(correlation_id=correlation_id)
        return list(events.values_list("id", flat=True))
    if correlation_id is None:
        return None
    ids = lookup.of_correlation(correlation_id, caller.key.sees, MAX_EVENTS + 1)
    if len(ids) > MAX_EVENTS:
        raise problems.invalid("correlation_id", f"has more than {MAX_EVENTS} events; filter by `event` instead")
    return ids


def _attempt(job: Job, caller: Caller) -> Attempt:
    return Attempt(
        attempt_no=job.attempt_no,
        status=job.status,
        attempt_at=job.attempt_at,
        finished_at=job.finished_at,
        duration_ms=job.duration_ms,
        response_status=job.response_status,
        error_code=job.error_code,
        # An endpoint's response is not for the producers of the events.
        response_snippet=job.response_snippet if caller.key.sees is None else None,
    )
