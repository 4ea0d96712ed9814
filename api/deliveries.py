"""Deliveries and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest
from ninja import Path, Query

from deadletters.models import DeadLetter
from events import lookup
from events.models import Event
from jobs.models import Job
from sagas.filters import DeliveryFilter
from sagas.models import Saga
from sagas.waiting import waiting_for

from . import pagination, problems, requests
from .auth import ApiKeyAuth, caller_of
from .keys import Caller
from .resource import Resource
from .schemas.common import Id
from .schemas.deliveries import Attempt, Deliveries, Delivery, DeliveryFilters, DeliveryWithAttempts
from .scopes import READ

resource = Resource("Deliveries", read=ApiKeyAuth(READ))
requests.add_to_deliveries(resource)
LIST = "deliveries"
MAX_EVENTS = 1000


@resource.get("", Deliveries, "List deliveries, newest first")
def list_deliveries(request: HttpRequest, filters: Query[DeliveryFilters]) -> Deliveries:
    """A page may have fewer items than `limit`, or none, and still have a `next`. The list ends when `next` is null."""
    pagination.require_known(request, DeliveryFilters)
    return page(caller_of(request), filters)


@resource.get("/{saga_id}", DeliveryWithAttempts, "Show a delivery with its attempts", 404)
def show(request: HttpRequest, saga_id: Annotated[Id, Path()]) -> DeliveryWithAttempts:
    key = caller_of(request).key
    source = key.readable_source
    saga = Saga.objects.filter(id=saga_id).first()
    if saga is None or not DeliveryFilter(source=source, owner=key.only_customer).matching([saga]):
        raise problems.not_found("This delivery does not exist.")
    [delivery] = _described([saga])
    attempts = [Attempt.model_validate(job) for job in Job.objects.filter(saga_id=saga.id).order_by("attempt_no")]
    if source is not None:
        # An endpoint's response is not for the producers of the events.
        attempts = [attempt.model_copy(update={"response_snippet": None}) for attempt in attempts]
    dead_letter_id = DeadLetter.objects.filter(saga_id=saga.id).values_list("id", flat=True).first()
    return DeliveryWithAttempts(**delivery.model_dump(), attempts=attempts, dead_letter=dead_letter_id)


def page(caller: Caller, filters: DeliveryFilters) -> Deliveries:
    """The matching deliveries that the caller may see."""
    source = caller.key.readable_source
    owner = caller.key.only_customer
    conditions = {**filters.conditions, "source": source, "owner": owner}
    position = pagination.read(LIST, conditions, filters.cursor)
    delivery_filter = DeliveryFilter(
        status=filters.status,
        subscription_id=filters.subscription,
        event_ids=_event_ids(filters, source),
        event_type=filters.event_type,
        source=source,
        customer=filters.customer,
        owner=owner,
        since=filters.since,
        until=filters.until,
    )
    # Computed once and kept in the cursor.
    lowest, before = position if position else delivery_filter.bounds()
    found = pagination.page(
        lambda limit: delivery_filter.newest_first(lowest, before, limit),
        filters.limit,
        None if delivery_filter.is_indexed else delivery_filter.matching,
    )
    next_cursor = pagination.sign(LIST, conditions, [lowest, found.last.id]) if found.last else None
    return Deliveries(items=_described(found.rows), next=next_cursor)


def _described(sagas: Sequence[Saga]) -> list[Delivery]:
    prefetch_related_objects(sagas, Prefetch("event", Event.objects.defer("payload")))
    reasons = waiting_for(sagas)
    return [Delivery.model_validate(saga).model_copy(update={"waiting_for": reasons.get(saga.id)}) for saga in sagas]


def _event_ids(filters: DeliveryFilters, source: str | None) -> list[int] | None:
    """The ids of the events with this uid, external id or correlation id; None if none is given."""
    if filters.external_id is not None:
        events = Event.objects.filter(id__in=lookup.of_external_id(filters.external_id, source))
        others = {"uid": filters.event, "correlation_id": filters.correlation_id}
        given = {name: value for name, value in others.items() if value is not None}
        return list(events.filter(**given).values_list("id", flat=True))
    if filters.event is not None:
        events = Event.objects.filter(uid=filters.event)
        if filters.correlation_id is not None:
            events = events.filter(correlation_id=filters.correlation_id)
        return list(events.values_list("id", flat=True))
    if filters.correlation_id is None:
        return None
    ids = lookup.of_correlation(filters.correlation_id, source, MAX_EVENTS + 1)
    if len(ids) > MAX_EVENTS:
        raise problems.invalid("correlation_id", f"has more than {MAX_EVENTS} events; filter by `event` instead")
    return ids
