"""Subscriptions: who gets what. All of it is for keys of the whole hub."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Query, Router, Status

from subscriptions import secrets, services, test_event, verification
from subscriptions.models import Subscription
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db.errors import UnfitDatabase

from . import pagination, parsing, problems
from .auth import ApiKeyAuth, caller_of
from .problems import Problem
from .schemas.common import Number
from .schemas.subscriptions import (
    RotateIn,
    SubscriptionChange,
    SubscriptionFilters,
    SubscriptionIn,
    SubscriptionOut,
    Subscriptions,
    SubscriptionWithSecret,
    TrialOut,
    VerificationOut,
)
from .scopes import READ, SUBSCRIPTIONS_WRITE

router = Router(tags=["Subscriptions"])
LIST = "subscriptions"
MAY_READ = ApiKeyAuth(READ, hub_wide="subscriptions")
MAY_WRITE = ApiKeyAuth(SUBSCRIPTIONS_WRITE, hub_wide="subscriptions")
Id = Annotated[Number, Path()]
# They may be taken away by saying null; for all others that is a slip.
NULLABLE = {"max_retry_limit", "base_delay"}


@router.get("", auth=MAY_READ, response=Subscriptions, summary="Subscriptions", openapi_extra=problems.documented())
def list_subscriptions(request: HttpRequest, filters: Query[SubscriptionFilters]) -> Subscriptions:
    pagination.require_known(request, SubscriptionFilters)
    conditions = filters.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
    position = pagination.read(LIST, conditions, filters.cursor)
    rows = Subscription.objects.filter(**conditions).order_by("id")
    if position is not None:
        rows = rows.filter(id__gt=position[0])
    found = pagination.page(lambda most: rows[:most], filters.limit)
    following = pagination.sign(LIST, conditions, [found.last.id]) if found.last else None
    return Subscriptions(items=[described(request, row) for row in found.rows], next=following)


@router.post(
    "",
    auth=MAY_WRITE,
    response={201: SubscriptionWithSecret},
    summary="Make a subscription",
    openapi_extra=problems.documented(409, 411, 413, 415) | parsing.documented(SubscriptionIn),
)
def create(request: HttpRequest) -> Status[SubscriptionWithSecret]:
    """The answer shows the signing secret, once. Verify it next: before that it gets no events."""
    given = parsing.read(request, SubscriptionIn)
    subscription = _edited(lambda: services.create(_columns(given.model_dump())))
    record(actions.REVEAL, subscription, name=subscription.in_the_trail)
    return Status(201, _with_secret(subscription, secrets.shown_to_the_receiver(subscription)))


@router.get(
    "/{subscription_id}",
    auth=MAY_READ,
    response=SubscriptionOut,
    summary="A subscription",
    openapi_extra=problems.documented(404),
)
def show(request: HttpRequest, subscription_id: Id) -> SubscriptionOut:
    return described(request, found_or_problem(subscription_id))


@router.patch(
    "/{subscription_id}",
    auth=MAY_WRITE,
    response=SubscriptionOut,
    summary="Change a subscription, or switch it off",
    openapi_extra=problems.documented(404, 409, 411, 413, 415) | parsing.documented(SubscriptionChange),
)
def change(request: HttpRequest, subscription_id: Id) -> SubscriptionOut:
    given = parsing.read(request, SubscriptionChange).model_dump(exclude_unset=True)
    for name, value in given.items():
        if value is None and name not in NULLABLE:
            raise problems.invalid(name, "must not be null; leave it out to keep it as it is")
    subscription = found_or_problem(subscription_id)
    return described(request, _edited(lambda: services.change(subscription, _columns(given))))


@router.post(
    "/{subscription_id}/rotate-secret",
    auth=MAY_WRITE,
    response=SubscriptionWithSecret,
    summary="Replace the signing secret",
    openapi_extra=problems.documented(404, 409, 411, 413, 415) | parsing.documented(RotateIn, required=False),
)
def rotate(request: HttpRequest, subscription_id: Id) -> SubscriptionWithSecret:
    """The answer shows the new one, once. The old one signs besides it for a while."""
    given = parsing.read_if_given(request, RotateIn)
    subscription = found_or_problem(subscription_id)
    try:
        secret = secrets.rotate(subscription, given.signing_scheme, force=given.force)
    except secrets.RotationRefused as error:
        raise Problem(409, f"Nothing was changed: {error}.") from None
    return _with_secret(subscription, secret)


@router.post(
    "/{subscription_id}/verify",
    auth=MAY_WRITE,
    response=VerificationOut,
    summary="Ask the endpoint whether it wants the events",
    openapi_extra=problems.documented(404),
)
def verify(request: HttpRequest, subscription_id: Id) -> VerificationOut:
    """Sends a challenge now and waits for the answer. A failure takes no earlier proof away."""
    subscription = found_or_problem(subscription_id)
    result = verification.verify(subscription)
    return VerificationOut(verified=subscription.verified, proved=result.verified, reason=result.reason)


@router.post(
    "/{subscription_id}/test",
    auth=MAY_WRITE,
    response=TrialOut,
    summary="Send a signed test event",
    openapi_extra=problems.documented(404),
)
def send_test(request: HttpRequest, subscription_id: Id) -> TrialOut:
    """Sent now, stored nowhere, not repeated."""
    sent = test_event.send_test(found_or_problem(subscription_id))
    return TrialOut(
        webhook_id=sent.message_id,
        delivered=sent.answer.error_code is None,
        response_status=sent.answer.status,
        error_code=sent.answer.error_code,
        duration_ms=sent.answer.duration_ms,
        response_snippet=sent.snippet,
    )


def found_or_problem(number: int) -> Subscription:
    subscription = Subscription.objects.filter(id=number).first()
    if subscription is None:
        raise problems.not_found("There is no such subscription.")
    return subscription


def described(request: HttpRequest, subscription: Subscription) -> SubscriptionOut:
    """The address's query may hold a password: it is whole for those who could have given it."""
    whole = caller_of(request).key.may(SUBSCRIPTIONS_WRITE)
    url = subscription.callback_url if whole else subscription.shown_url
    return SubscriptionOut(**{**_shown(subscription), "callback_url": url})


def _with_secret(subscription: Subscription, secret: str) -> SubscriptionWithSecret:
    return SubscriptionWithSecret(**_shown(subscription), secret=secret)


def _shown(subscription: Subscription) -> dict[str, Any]:
    columns = SubscriptionOut.model_fields.keys() - {"base_delay", "header_names"}
    delay = subscription.base_delay
    return {
        **{name: getattr(subscription, name) for name in columns},
        "base_delay": None if delay is None else delay.total_seconds(),
        "header_names": services.header_names(subscription),
    }


def _columns(given: dict[str, Any]) -> dict[str, Any]:
    delay = given.get("base_delay")
    return given if delay is None else {**given, "base_delay": timedelta(seconds=delay)}


def _edited(edit: Any) -> Subscription:
    try:
        subscription: Subscription = edit()
    except services.InvalidSubscription as error:
        raise Problem(422, str(error), list(error.errors.items())) from None
    except services.AlreadySubscribed as error:
        raise Problem(409, f"Nothing was stored: {error}.", [("callback_url", str(error))]) from None
    except UnfitDatabase as error:
        raise Problem(409, f"Nothing was stored: {error}.") from None
    # What the database itself has filled in.
    subscription.refresh_from_db()
    return subscription
