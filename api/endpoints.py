"""Endpoints. A key of a customer sees only the customer's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID

from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest
from ninja import Path, Query, Status

from subscriptions import endpoint_services, health, sample_delivery, secrets, verification
from subscriptions.endpoint_models import Endpoint
from subscriptions.models import Subscription
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record, url_without_query
from webhookhub.db import clock
from webhookhub.stats import endpoints
from webhookhub.stats.endpoints import EndpointStats
from webhookhub.validators import InvalidReason

from . import endpoint_fields, pagination, parsing, problems
from .auth import ApiKeyAuth, caller_of
from .resource import Resource
from .schemas.endpoints import (
    EndpointChange,
    EndpointDeleted,
    EndpointFilters,
    EndpointIn,
    EndpointList,
    EndpointOut,
    EndpointState,
    EndpointSubscription,
    EndpointWithSecret,
    VouchIn,
    WorstEndpoints,
)
from .schemas.subscriptions import EnableIn, RotateIn, TestOut, VerificationOut
from .scopes import ENDPOINTS_VOUCH, READ, SUBSCRIPTIONS_WRITE

LIST = "endpoints"
resource = Resource(
    "Endpoints",
    read=ApiKeyAuth(READ, hub_wide="endpoints", of_customers=True),
    write=ApiKeyAuth(SUBSCRIPTIONS_WRITE, hub_wide="endpoints", of_customers=True),
)
PathUid = Annotated[UUID, Path()]
# Fields of a response that are not columns.
COMPUTED = endpoint_fields.SHARED | {"event_types", "subscriptions", "vouched_by", "vouch_reason"}
NULLABLE = {"max_retry_limit", "base_delay", "retry_delays", "rate_limit"}
Reasons = Mapping[int | None, str]


@resource.get("", EndpointList, "List endpoints")
def list_endpoints(request: HttpRequest, filters: Query[EndpointFilters]) -> EndpointList:
    pagination.require_known(request, EndpointFilters)
    conditions = filters.conditions
    if (customer := conditions.pop("customer", None)) is not None:
        conditions["customer_key"] = customer
    if (only := caller_of(request).key.only_customer) is not None:
        if customer not in (None, only):
            return EndpointList(items=[], next=None)
        conditions["customer_key"] = only
    position = pagination.read(LIST, conditions, filters.cursor)
    rows = _with_subscriptions().filter(**conditions).order_by("id")
    if position is not None:
        rows = rows.filter(id__gt=position[0])
    page = pagination.page(lambda limit: rows[:limit], filters.limit)
    next_cursor = pagination.sign(LIST, conditions, [page.last.id]) if page.last else None
    reasons = health.reasons([row.pk for row in page.rows if row.disabled_at is not None])
    return EndpointList(items=[_described(request, row, reasons) for row in page.rows], next=next_cursor)


@resource.get("/worst", WorstEndpoints, "List the worst endpoints", 404)
def list_worst(request: HttpRequest) -> WorstEndpoints:
    """At most 20: first those whose oldest delivery waits longest, then those that fail most."""
    if caller_of(request).key.only_customer is not None:
        raise problems.not_found()
    return WorstEndpoints(items=[described(stats) for stats in endpoints.worst(clock.now())])


@resource.post("", {201: EndpointWithSecret}, "Create an endpoint", 409, body=EndpointIn)
def create(request: HttpRequest) -> Status[EndpointWithSecret]:
    """With a subscription to each event type. The response contains the signing secret, which is not shown again."""
    body = parsing.read(request, EndpointIn)
    values = body.model_dump(exclude={"customer"})
    only = caller_of(request).key.only_customer
    if only is not None and body.customer not in (None, only):
        raise problems.invalid("customer", "is not the customer of this API key; omit it")
    values["customer_key"] = only or body.customer or ""
    endpoint = endpoint_fields.saved(lambda: endpoint_services.create(endpoint_fields.columns(values)))
    record(actions.REVEAL, endpoint, name=endpoint.audit_name)
    return Status(201, _with_secret(endpoint, secrets.reveal(endpoint)))


@resource.get("/{uid}", EndpointOut, "Show an endpoint", 404)
def show(request: HttpRequest, uid: PathUid) -> EndpointOut:
    return _described(request, _endpoint(request, uid))


@resource.patch("/{uid}", EndpointOut, "Change an endpoint", 404, 409, body=EndpointChange)
def change(request: HttpRequest, uid: PathUid) -> EndpointOut:
    changes = parsing.read(request, EndpointChange).model_dump(exclude_unset=True)
    for name, value in changes.items():
        if value is None and name not in NULLABLE:
            raise problems.invalid(name, "must not be null; omit it to keep its value")
    return _changed(request, uid, endpoint_fields.columns(changes))


@resource.post("/{uid}/pause", EndpointOut, "Pause an endpoint", 404)
def pause(request: HttpRequest, uid: PathUid) -> EndpointOut:
    """It gets no new deliveries, and open ones wait."""
    return _changed(request, uid, {"active": False})


@resource.post("/{uid}/resume", EndpointOut, "Resume a paused endpoint", 404)
def resume(request: HttpRequest, uid: PathUid) -> EndpointOut:
    return _changed(request, uid, {"active": True})


@resource.delete("/{uid}", EndpointDeleted, "Delete an endpoint", 404)
def delete(request: HttpRequest, uid: PathUid) -> EndpointDeleted:
    """It is hidden and gets nothing more: open deliveries stay where they are, and what it got stays."""
    endpoint = _endpoint(request, uid)
    endpoint_services.delete(endpoint)
    assert endpoint.deleted_at is not None
    return EndpointDeleted(uid=endpoint.uid, deleted_at=endpoint.deleted_at)


@resource.post(
    "/{uid}/rotate-secret",
    EndpointWithSecret,
    "Replace the signing secret",
    *(404, 409),
    body=RotateIn,
    body_required=False,
)
def rotate(request: HttpRequest, uid: PathUid) -> EndpointWithSecret:
    """The response contains the new secret, which is not shown again. During an overlap, both secrets sign."""
    body = parsing.read_if_given(request, RotateIn)
    endpoint = _endpoint(request, uid)
    return _with_secret(endpoint, endpoint_fields.rotated(endpoint, body))


@resource.post("/{uid}/verify", VerificationOut, "Verify an endpoint", 404)
def verify(request: HttpRequest, uid: PathUid) -> VerificationOut:
    """Sends a challenge and waits for the response. A verified endpoint stays verified if it fails."""
    endpoint = _endpoint(request, uid)
    result = verification.verify(endpoint)
    reason = verification.describe(result.result)
    return VerificationOut(verified=endpoint.verified, proved=result.verified, reason=reason)


@resource.post(
    "/{uid}/vouch",
    EndpointOut,
    "Vouch for an endpoint that cannot be verified",
    404,
    body=VouchIn,
    auth=ApiKeyAuth(ENDPOINTS_VOUCH, hub_wide="endpoints"),
)
def vouch(request: HttpRequest, uid: PathUid) -> EndpointOut:
    """It counts as verified, by the name of this API key."""
    body = parsing.read(request, VouchIn)
    endpoint = _endpoint(request, uid)
    with _reason_checked():
        endpoint_services.vouch(endpoint, reason=body.reason)
    return _described(request, endpoint)


@resource.post("/{uid}/enable", EndpointOut, "Enable a disabled endpoint", 404, body=EnableIn)
def enable(request: HttpRequest, uid: PathUid) -> EndpointOut:
    """Nothing changes if it is not disabled."""
    body = parsing.read(request, EnableIn)
    endpoint = _endpoint(request, uid)
    with _reason_checked():
        health.enable(endpoint, reason=body.reason)
    return _described(request, endpoint)


@resource.post("/{uid}/test", TestOut, "Send a signed test event", 404)
def send_test(request: HttpRequest, uid: PathUid) -> TestOut:
    """The test event is sent once, at once, and is not stored."""
    return TestOut(**sample_delivery.send_test(_endpoint(request, uid)).as_json())


@resource.get("/{uid}/state", EndpointState, "Show what is open at an endpoint and how it responds", 404)
def show_state(request: HttpRequest, uid: PathUid) -> EndpointState:
    subscription = Subscription.objects.filter(endpoint=_endpoint(request, uid).pk).first()
    if subscription is None:
        raise problems.not_found("This endpoint has no subscription.")
    return described(endpoints.of_subscription(subscription, clock.now()))


def described(stats: EndpointStats) -> EndpointState:
    state = stats.health if stats.is_failing else None
    return EndpointState(
        url=url_without_query(stats.url),
        subscription=stats.subscription.pk,
        open=stats.open,
        waiting=stats.waiting,
        oldest_waiting_at=stats.oldest_waiting,
        attempts_per_second=stats.attempts_per_second,
        success_rate=stats.success_rate,
        p95_ms=stats.p95_ms,
        failing_since=state.failing_since if state else None,
        last_error_code=state.last_error_code if state else None,
        breaker_open_since=state.breaker_open_since if state else None,
        disabled_at=state.disabled_at if state else None,
    )


@contextmanager
def _reason_checked() -> Iterator[None]:
    try:
        yield
    except InvalidReason as error:
        raise problems.invalid("reason", error.why) from None


def _with_subscriptions() -> QuerySet[Endpoint]:
    own = Subscription.objects.existing().only("id", "endpoint_id", "event_type", "label_filter").order_by("event_type")
    return Endpoint.objects.existing().prefetch_related(Prefetch("subscriptions", own, "shown_subscriptions"))


def _endpoint(request: HttpRequest, uid: UUID) -> Endpoint:
    endpoint = Endpoint.objects.existing().filter(uid=uid).first()
    if endpoint is None or caller_of(request).key.only_customer not in (None, endpoint.customer_key):
        raise problems.not_found("This endpoint does not exist.")
    return endpoint


def _changed(request: HttpRequest, uid: UUID, values: Mapping[str, Any]) -> EndpointOut:
    endpoint = _endpoint(request, uid)
    return _described(request, endpoint_fields.saved(lambda: endpoint_services.change(endpoint, values)))


def _described(request: HttpRequest, endpoint: Endpoint, reasons: Reasons | None = None) -> EndpointOut:
    """A URL may contain a password in its query: only keys that may set the URL see it whole."""
    writes = caller_of(request).key.has_scope(SUBSCRIPTIONS_WRITE)
    url = endpoint.callback_url if writes else endpoint.shown_url
    return EndpointOut(**{**_fields(endpoint, reasons), "callback_url": url})


def _with_secret(endpoint: Endpoint, secret: str) -> EndpointWithSecret:
    return EndpointWithSecret(**_fields(endpoint), secret=secret)


def _fields(endpoint: Endpoint, reasons: Reasons | None = None) -> dict[str, Any]:
    if reasons is None:
        reasons = health.reasons([endpoint.pk]) if endpoint.disabled_at is not None else {}
    shown: Sequence[Subscription] | None = getattr(endpoint, "shown_subscriptions", None)
    if shown is None:
        shown = list(Subscription.objects.existing().filter(endpoint=endpoint.pk).order_by("event_type"))
    return {
        **{name: getattr(endpoint, name) for name in EndpointOut.model_fields.keys() - COMPUTED},
        **endpoint_fields.shared(endpoint, reasons.get(endpoint.pk, "")),
        "event_types": [row.event_type for row in shown],
        "subscriptions": [
            EndpointSubscription(id=row.pk, event_type=row.event_type, has_filter=row.label_filter is not None)
            for row in shown
        ],
        "vouched_by": endpoint.vouched_by or None,
        "vouch_reason": endpoint.vouch_reason if endpoint.vouched_by else None,
    }
