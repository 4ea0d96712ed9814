"""Subscriptions. All operations require a key without a source; a key of a customer sees only the customer's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Query, Status

from events.backfill import NotRoutable, Position, backfill
from events.filter_preview import preview
from subscriptions import credential_services, filters, health, sample_delivery, secrets, services, verification
from subscriptions.credentials import InvalidCredentials, OAuth2Client
from subscriptions.matching import NO_CUSTOMER
from subscriptions.models import Subscription
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db import clock
from webhookhub.db.requirements import UnsuitableDatabase
from webhookhub.stats.endpoints import of_subscription
from webhookhub.validators import InvalidReason

from . import endpoint_fields, endpoints, pagination, parsing, problems, requests
from .auth import ApiKeyAuth, caller_of
from .problems import Problem
from .resource import Resource
from .schemas.common import Id
from .schemas.endpoints import EndpointState
from .schemas.subscriptions import (
    BackfillIn,
    BackfillOut,
    ClientCertificateIn,
    EnableIn,
    OAuth2ClientIn,
    PreviewedEvent,
    PreviewIn,
    PreviewOut,
    RotateIn,
    SubscriptionChange,
    SubscriptionFilters,
    SubscriptionIn,
    SubscriptionOut,
    Subscriptions,
    SubscriptionWithSecret,
    TestOut,
    VerificationOut,
)
from .scopes import READ, SUBSCRIPTIONS_WRITE

LIST = "subscriptions"
BACKFILL = "backfill"
resource = Resource(
    "Subscriptions",
    read=ApiKeyAuth(READ, hub_wide="subscriptions", of_customers=True),
    write=ApiKeyAuth(SUBSCRIPTIONS_WRITE, hub_wide="subscriptions", of_customers=True),
)
requests.add_to_subscriptions(resource)
PathId = Annotated[Id, Path()]
# Fields that null resets to the hub's default, or to none.
NULLABLE = {"max_retry_limit", "base_delay", "retry_delays", "rate_limit", "label_filter"}


@resource.get("", Subscriptions, "List subscriptions")
def list_subscriptions(request: HttpRequest, filters: Query[SubscriptionFilters]) -> Subscriptions:
    pagination.require_known(request, SubscriptionFilters)
    conditions = filters.conditions
    if (customer := conditions.pop("customer", None)) is not None:
        conditions["customer_key"] = customer
    if (only := caller_of(request).key.only_customer) is not None:
        if customer not in (None, only):
            return Subscriptions(items=[], next=None)
        conditions["customer_key"] = only
    position = pagination.read(LIST, conditions, filters.cursor)
    rows = Subscription.objects.existing().filter(**conditions).order_by("id")
    if position is not None:
        rows = rows.filter(id__gt=position[0])
    page = pagination.page(lambda limit: rows[:limit], filters.limit)
    next_cursor = pagination.sign(LIST, conditions, [page.last.id]) if page.last else None
    reasons = _disabled_reasons(page.rows)
    return Subscriptions(items=[_described(request, row, reasons) for row in page.rows], next=next_cursor)


@resource.post("", {201: SubscriptionWithSecret}, "Create a subscription", 409, body=SubscriptionIn)
def create(request: HttpRequest) -> Status[SubscriptionWithSecret]:
    """The response contains the signing secret, which is not shown again. Verify the subscription to receive events."""
    body = parsing.read(request, SubscriptionIn)
    values = body.model_dump(exclude={"customer"})
    values["customer_key"] = _customer_of_new(request, body.customer)
    subscription = endpoint_fields.saved(lambda: services.create(endpoint_fields.columns(values)))
    record(actions.REVEAL, subscription, name=subscription.audit_name)
    return Status(201, _with_secret(subscription, secrets.reveal(subscription)))


@resource.post("/preview", PreviewOut, "Show which of the newest events a label filter accepts", body=PreviewIn)
def preview_filter(request: HttpRequest) -> PreviewOut:
    """Nothing is stored or sent."""
    body = parsing.read(request, PreviewIn)
    try:
        label_filter = filters.parse(body.label_filter or [])
    except filters.InvalidFilter as error:
        raise problems.invalid(f"label_filter{error.place}", error.why) from None
    result = preview(body.event_type, label_filter, customer=caller_of(request).key.only_customer)
    events = [PreviewedEvent(uid=row.uid, created_at=row.created_at, labels=dict(row.labels)) for row in result.events]
    return PreviewOut(examined=result.examined, accepted=result.accepted, events=events)


@resource.get("/{subscription_id}", SubscriptionOut, "Show a subscription", 404)
def show(request: HttpRequest, subscription_id: PathId) -> SubscriptionOut:
    return _described(request, _subscription(request, subscription_id))


@resource.patch(
    "/{subscription_id}", SubscriptionOut, "Change or deactivate a subscription", 404, 409, body=SubscriptionChange
)
def change(request: HttpRequest, subscription_id: PathId) -> SubscriptionOut:
    changes = parsing.read(request, SubscriptionChange).model_dump(exclude_unset=True)
    for name, value in changes.items():
        if value is None and name not in NULLABLE:
            raise problems.invalid(name, "must not be null; omit it to keep its value")
    subscription = _subscription(request, subscription_id)
    return _described(
        request, endpoint_fields.saved(lambda: services.change(subscription, endpoint_fields.columns(changes)))
    )


@resource.post(
    "/{subscription_id}/rotate-secret",
    SubscriptionWithSecret,
    "Replace the signing secret",
    *(404, 409),
    body=RotateIn,
    body_required=False,
)
def rotate(request: HttpRequest, subscription_id: PathId) -> SubscriptionWithSecret:
    """The response contains the new secret, which is not shown again. During an overlap, both secrets sign."""
    body = parsing.read_if_given(request, RotateIn)
    subscription = _subscription(request, subscription_id)
    return _with_secret(subscription, endpoint_fields.rotated(subscription, body))


@resource.post(
    "/{subscription_id}/set-client-certificate",
    SubscriptionOut,
    "Set the client certificate",
    *(404, 409),
    body=ClientCertificateIn,
)
def set_client_certificate(request: HttpRequest, subscription_id: PathId) -> SubscriptionOut:
    """The hub shows it to the endpoint with each request. It replaces an earlier one."""
    body = parsing.read(request, ClientCertificateIn)
    subscription = _subscription(request, subscription_id)
    _stored(lambda: credential_services.set_certificate(subscription, body.certificate, body.private_key))
    return _described(request, subscription)


@resource.post("/{subscription_id}/remove-client-certificate", SubscriptionOut, "Remove the client certificate", 404)
def remove_client_certificate(request: HttpRequest, subscription_id: PathId) -> SubscriptionOut:
    """Nothing changes if there is none."""
    subscription = _subscription(request, subscription_id)
    credential_services.remove_certificate(subscription)
    return _described(request, subscription)


@resource.post(
    "/{subscription_id}/set-oauth2-client", SubscriptionOut, "Set the OAuth2 client", *(404, 409), body=OAuth2ClientIn
)
def set_oauth2_client(request: HttpRequest, subscription_id: PathId) -> SubscriptionOut:
    """The hub gets tokens with it (client credentials) and sends them to the endpoint. It replaces an earlier one."""
    client = OAuth2Client(**parsing.read(request, OAuth2ClientIn).model_dump())
    subscription = _subscription(request, subscription_id)
    _stored(lambda: credential_services.set_oauth2(subscription, client))
    return _described(request, subscription)


@resource.post("/{subscription_id}/remove-oauth2-client", SubscriptionOut, "Remove the OAuth2 client", 404)
def remove_oauth2_client(request: HttpRequest, subscription_id: PathId) -> SubscriptionOut:
    """Nothing changes if there is none."""
    subscription = _subscription(request, subscription_id)
    credential_services.remove_oauth2(subscription)
    return _described(request, subscription)


@resource.post("/{subscription_id}/verify", VerificationOut, "Verify the endpoint", 404)
def verify(request: HttpRequest, subscription_id: PathId) -> VerificationOut:
    """Sends a challenge and waits for the response. A verified subscription stays verified if it fails."""
    subscription = _subscription(request, subscription_id)
    result = verification.verify(subscription)
    reason = verification.describe(result.result)
    return VerificationOut(verified=subscription.verified, proved=result.verified, reason=reason)


@resource.get("/{subscription_id}/endpoint", EndpointState, "Show the state of a subscription's endpoint", 404)
def show_endpoint(request: HttpRequest, subscription_id: PathId) -> EndpointState:
    """Of all subscriptions of this endpoint together."""
    return endpoints.described(of_subscription(_subscription(request, subscription_id), clock.now()))


@resource.post("/{subscription_id}/enable", SubscriptionOut, "Enable a disabled endpoint", 404, 409, body=EnableIn)
def enable(request: HttpRequest, subscription_id: PathId) -> SubscriptionOut:
    """For all subscriptions of this endpoint. Nothing changes if it is not disabled."""
    body = parsing.read(request, EnableIn)
    subscription = _subscription(request, subscription_id)
    try:
        health.enable(subscription, reason=body.reason)
    except InvalidReason as error:
        raise problems.invalid("reason", error.why) from None
    return _described(request, subscription)


@resource.post("/{subscription_id}/test", TestOut, "Send a signed test event", 404)
def send_test(request: HttpRequest, subscription_id: PathId) -> TestOut:
    """The test event is sent once, at once, and is not stored."""
    return TestOut(**sample_delivery.send_test(_subscription(request, subscription_id)).as_json())


@resource.post("/{subscription_id}/backfill", BackfillOut, "Deliver past events", 404, 409, body=BackfillIn)
def create_missing(request: HttpRequest, subscription_id: PathId) -> BackfillOut:
    """Creates deliveries for past events that this subscription has none for. Repeat with `next` until it is null."""
    body = parsing.read(request, BackfillIn)
    _subscription(request, subscription_id)
    if body.until is not None and body.until < body.since:
        raise problems.invalid("until", "must not be before since")
    conditions = {"subscription": subscription_id, "since": body.since, "until": body.until}
    position = pagination.read(BACKFILL, conditions, body.cursor)
    # Without `until`, the time of the first request is the end, so that the requests come to one.
    until = datetime.fromisoformat(position[2]) if position else body.until
    after = Position(datetime.fromisoformat(position[0]), position[1]) if position else None
    try:
        result = backfill(subscription_id, body.since, until, after=after, limit=body.limit)
    except NotRoutable as error:
        raise Problem(409, f"{error}.") from None
    next_cursor = None
    if result.after:
        place = [result.after.created_at.isoformat(), result.after.id, result.until.isoformat()]
        next_cursor = pagination.sign(BACKFILL, conditions, place)
    return BackfillOut(examined=result.examined, created=result.created, next=next_cursor)


def _customer_of_new(request: HttpRequest, given: str | None) -> str:
    only = caller_of(request).key.only_customer
    if only is not None and given not in (None, only):
        raise problems.invalid("customer", "is not the customer of this API key; omit it")
    return only or given or NO_CUSTOMER


def _subscription(request: HttpRequest, pk: int) -> Subscription:
    subscription = Subscription.objects.existing().filter(id=pk).first()
    if subscription is None or caller_of(request).key.only_customer not in (None, subscription.customer_key):
        raise problems.not_found("This subscription does not exist.")
    return subscription


def _disabled_reasons(rows: Sequence[Subscription]) -> dict[int | None, str]:
    return health.reasons([row.endpoint_id for row in rows if row.disabled_at is not None])


def _described(
    request: HttpRequest, subscription: Subscription, reasons: Mapping[int | None, str] | None = None
) -> SubscriptionOut:
    """A URL may contain a password in its query: only keys that may set the URL see it whole."""
    key = caller_of(request).key
    url = subscription.callback_url if key.has_scope(SUBSCRIPTIONS_WRITE) else subscription.shown_url
    return SubscriptionOut(**{**_fields(subscription, reasons), "callback_url": url})


def _with_secret(subscription: Subscription, secret: str) -> SubscriptionWithSecret:
    return SubscriptionWithSecret(**_fields(subscription), secret=secret)


def _fields(subscription: Subscription, reasons: Mapping[int | None, str] | None = None) -> dict[str, Any]:
    if reasons is None:
        reasons = _disabled_reasons([subscription])
    columns = SubscriptionOut.model_fields.keys() - endpoint_fields.SHARED - {"label_filter"}
    return {
        **{name: getattr(subscription, name) for name in columns},
        **endpoint_fields.shared(subscription, reasons.get(subscription.endpoint_id, "")),
        "label_filter": subscription.label_filter and subscription.label_filter.as_json(),
    }


def _stored(store: Callable[[], object]) -> None:
    try:
        store()
    except InvalidCredentials as error:
        raise Problem(422, str(error), list(error.errors.items())) from None
    except UnsuitableDatabase as error:
        raise Problem(409, f"Nothing was stored: {error}.") from None
