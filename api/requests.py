"""Requests by people for deliveries: send now, abandon, send again. The orchestrator applies them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from ninja import Header, Path, Status
from pydantic import BaseModel

from deadletters.requeue import PERMISSION as REQUEUE_PERMISSION
from sagas import requests
from sagas.filters import DeliveryFilter
from sagas.models import ABANDON, SEND_AGAIN, SEND_NOW, TOKEN_LENGTH, DeliveryRequest, Saga
from sagas.redeliver import next_generation
from sagas.requests import InvalidRequest, MissingDelivery, RequestFilter, RequestResult, TokenUsed, WrongStatus
from subscriptions.models import Subscription

from . import parsing, problems
from .auth import ApiKeyAuth, actor_name, caller_of
from .keys import Caller
from .models import ApiKey
from .problems import Problem
from .resource import Resource
from .schemas.common import Id
from .schemas.requests import AbandonIn, EndpointRequestIn, RequestIn, RequestOut, RequestPreview
from .scopes import DELIVERIES_ABANDON, DELIVERIES_SEND, READ, REQUEUE

resource = Resource("Requests", read=ApiKeyAuth(READ))
PathId = Annotated[Id, Path()]
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", max_length=200, description="Makes a repeated request safe.")
]
SCOPES = {SEND_NOW: DELIVERIES_SEND, SEND_AGAIN: DELIVERIES_SEND, ABANDON: DELIVERIES_ABANDON}
BY_PERMISSION = {requests.PERMISSIONS[kind]: scope for kind, scope in SCOPES.items()} | {REQUEUE_PERMISSION: REQUEUE}
# Kind → the path of its operation, its summary for one delivery, and for a subscription.
PATHS = {
    SEND_NOW: ("send-now", "Send a waiting delivery now", "Send all waiting deliveries of a subscription now"),
    ABANDON: ("abandon", "Abandon a delivery", "Abandon all open deliveries of a subscription"),
    SEND_AGAIN: ("send-again", "Send an ended delivery again", ""),
}


class KeyRequester:
    """An API key as the author of a request."""

    def __init__(self, key: ApiKey) -> None:
        self._key = key

    def get_username(self) -> str:
        return actor_name(self._key)

    def has_perm(self, perm: str) -> bool:
        # The scope of each kind covers many deliveries, too.
        return perm == requests.BULK_PERMISSION or self._key.has_scope(BY_PERMISSION[perm])


def add_to_deliveries(deliveries: Resource) -> None:
    """Before the operation of a single delivery: its path has a number where another one has a name."""
    deliveries.post(
        "/abandon",
        {200: RequestPreview, 202: RequestOut},
        "Abandon all open deliveries that match a filter",
        body=AbandonIn,
        auth=ApiKeyAuth(DELIVERIES_ABANDON),
    )(abandon_matching)
    for kind in (SEND_NOW, ABANDON, SEND_AGAIN):
        _for_one(deliveries, kind)


def add_to_subscriptions(subscriptions: Resource) -> None:
    for kind in (SEND_NOW, ABANDON):
        _for_subscription(subscriptions, kind)


def _for_one(deliveries: Resource, kind: str) -> None:
    path, summary, _ = PATHS[kind]

    @deliveries.post(
        f"/{{saga_id}}/{path}", {202: RequestOut}, summary, 404, 409, body=RequestIn, auth=ApiKeyAuth(SCOPES[kind])
    )
    def operation(request: HttpRequest, saga_id: PathId, idempotency_key: IdempotencyKey = None) -> Status[RequestOut]:
        caller = caller_of(request)
        body = parsing.read(request, RequestIn)
        _require_visible(caller, saga_id)
        token = _token(request, caller.key, idempotency_key, body)
        return _accepted(
            lambda: requests.request_delivery(
                kind, saga_id, by=KeyRequester(caller.key), reason=body.reason, token=token
            )
        )

    operation.__name__ = kind


def _for_subscription(subscriptions: Resource, kind: str) -> None:
    path, _, summary = PATHS[kind]

    @subscriptions.post(
        f"/{{subscription_id}}/{path}",
        {200: RequestPreview, 202: RequestOut},
        summary,
        404,
        body=EndpointRequestIn,
        auth=ApiKeyAuth(SCOPES[kind], hub_wide="subscriptions", of_customers=True),
    )
    def operation(
        request: HttpRequest, subscription_id: PathId, idempotency_key: IdempotencyKey = None
    ) -> Status[RequestOut] | Status[RequestPreview]:
        body = parsing.read(request, EndpointRequestIn)
        subscription = Subscription.objects.filter(id=subscription_id).first()
        if subscription is None or caller_of(request).key.only_customer not in (None, subscription.customer_key):
            raise problems.not_found("This subscription does not exist.")
        chosen = requests.of_subscription(subscription, whole_endpoint=body.whole_endpoint)
        return _matching(request, kind, chosen, body, idempotency_key)

    operation.__name__ = f"{kind}_subscription"


def abandon_matching(
    request: HttpRequest, idempotency_key: IdempotencyKey = None
) -> Status[RequestOut] | Status[RequestPreview]:
    """Only deliveries that exist now. A delivery in progress is abandoned when its attempt has failed."""
    body = parsing.read(request, AbandonIn)
    conditions = body.model_dump(exclude={"subscription", "reason", "dry_run"})
    if body.subscription is not None:
        conditions["subscription_ids"] = {body.subscription}
    if RequestFilter(**conditions).is_empty:
        raise problems.invalid("body", "needs at least one condition")
    key = caller_of(request).key
    chosen = RequestFilter(**conditions, source=key.readable_source, owner=key.only_customer)
    return _matching(request, ABANDON, chosen, body, idempotency_key)


@resource.get("/{uid}", RequestOut, "Show a request and its progress", 404)
def show(request: HttpRequest, uid: Annotated[UUID, Path()]) -> RequestOut:
    key = caller_of(request).key
    found = requests.find(uid)
    if found is None or not _is_visible(found, key):
        raise problems.not_found("This request does not exist.")
    return _described(found)


def _is_visible(request: DeliveryRequest, key: ApiKey) -> bool:
    """Whether a request is only for deliveries that the key may see."""
    source, owner = key.readable_source, key.only_customer
    if request.saga_id is not None:
        sagas = list(Saga.objects.filter(id=request.saga_id))
        return bool(DeliveryFilter(source=source, owner=owner).matching(sagas))
    conditions = json.loads(request.conditions)
    if owner is not None and conditions.get("owner") != owner:
        ids = conditions.get("subscription_ids", [])
        if not ids or Subscription.objects.filter(id__in=ids, customer_key=owner).count() < len(ids):
            return False
    return source is None or bool(conditions.get("source") == source)


def _require_visible(caller: Caller, saga_id: int) -> None:
    sagas = list(Saga.objects.filter(id=saga_id))
    key = caller.key
    if not sagas or not DeliveryFilter(source=key.readable_source, owner=key.only_customer).matching(sagas):
        raise problems.not_found("This delivery does not exist.")


def _matching(
    request: HttpRequest,
    kind: str,
    chosen: RequestFilter,
    body: AbandonIn | EndpointRequestIn,
    idempotency_key: str | None,
) -> Status[RequestOut] | Status[RequestPreview]:
    caller = caller_of(request)
    if body.dry_run:
        return Status(200, RequestPreview(**vars(requests.preview(chosen))))
    if body.reason is None:
        raise problems.invalid("reason", "is required unless dry_run is true")
    reason, token = body.reason, _token(request, caller.key, idempotency_key, body)
    by = KeyRequester(caller.key)
    return _accepted(lambda: requests.request_matching(kind, chosen, by=by, reason=reason, token=token))


def _accepted(make: Callable[[], RequestResult]) -> Status[RequestOut]:
    try:
        return Status(202, _described(make().request))
    except PermissionDenied:
        # The operation has checked its own scope.
        raise Problem(403, f"This key lacks the scope {REQUEUE}.") from None
    except (WrongStatus, MissingDelivery, TokenUsed) as error:
        raise Problem(409, f"Nothing was requested: {error}.") from None
    except InvalidRequest as error:
        raise problems.invalid("reason", str(error).removeprefix("reason ")) from None


def _described(request: DeliveryRequest) -> RequestOut:
    values: dict[str, Any] = {name: getattr(request, name, None) for name in RequestOut.model_fields}
    values |= {"delivery": request.saga_id, "filter": json.loads(request.conditions), "new_delivery": None}
    if request.kind == SEND_AGAIN and request.applied_at is not None and request.saga is not None:
        values["new_delivery"] = next_generation(request.saga)
    return RequestOut(**values)


def _token(request: HttpRequest, key: ApiKey, idempotency_key: str | None, body: BaseModel) -> str | None:
    """The same for the same request with the same key; None without a key."""
    if parsing.not_blank(idempotency_key) is None:
        return None
    text = json.dumps([key.key_id, idempotency_key, request.path, body.model_dump(mode="json")], sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:TOKEN_LENGTH]
