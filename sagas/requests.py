"""Requests by people: send deliveries now, abandon them, or send them again.

A request is a row with its author and reason, written in one transaction with its audit entry. The orchestrator applies
it (`apply_requests`); nothing else changes a delivery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import Max
from django.utils.translation import gettext as _
from msgspec import DecodeError, Meta, Raw, json

from deadletters.requeue import PERMISSION as REQUEUE_PERMISSION
from deadletters.requeue import Requester
from subscriptions.models import Subscription
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.db.bulk import insert_one
from webhookhub.db.retry import in_transaction
from webhookhub.ids import new_token, new_uid
from webhookhub.logs import Log, log
from webhookhub.runner.notifier import notify
from webhookhub.validators import InvalidReason, clean_reason

from .filters import DeliveryFilter
from .models import ABANDON, SEND_AGAIN, SEND_NOW, TOKEN_LENGTH, DeliveryRequest, Saga
from .open_sagas import OpenSagas
from .redeliver import next_generation
from .transitions import DEAD_LETTERED, OPEN, TERMINAL, WAITING

PERMISSIONS = {SEND_NOW: "sagas.send_now", ABANDON: "sagas.abandon", SEND_AGAIN: "sagas.send_again"}
BULK_PERMISSION = "sagas.bulk_request"
ACTIONS = {SEND_NOW: actions.SEND_NOW, ABANDON: actions.ABANDON, SEND_AGAIN: actions.SEND_AGAIN}
MAX_SELECTED = 100
MAX_COUNTED = 10_000
# Open deliveries that a preview examines.
MAX_EXAMINED = 50_000
WINDOW = 2000

UtcTime = Annotated[datetime, Meta(tz=True)]


class InvalidRequest(ValueError):
    """The request is invalid; nothing was written."""


class MissingDelivery(InvalidRequest):
    pass


class WrongStatus(InvalidRequest):
    """The delivery's status does not allow the request."""


class NoConditions(InvalidRequest):
    """Only deliveries that a condition selects can be abandoned, never all of the hub."""


class InvalidConditions(ValueError):
    """Stored conditions are not those of a filter."""


class TokenUsed(InvalidRequest):
    """Another request has this token."""


@dataclass(frozen=True)
class RequestFilter:
    """Open deliveries for which every condition holds that is not None. The fields are also the names in the audit log
    and in the stored conditions; `since` and `until` compare created_at, `source` is the event's producer, `customer`
    its customer, `owner` the customer that owns the subscription."""

    subscription_ids: Collection[int] | None = None
    status: str | None = None
    event_type: str | None = None
    source: str | None = None
    customer: str | None = None
    owner: str | None = None
    since: UtcTime | None = None
    until: UtcTime | None = None

    @property
    def is_empty(self) -> bool:
        return not self.as_json()

    def matching(self, sagas: Sequence[Saga]) -> list[Saga]:
        if self.subscription_ids is not None:
            sagas = [saga for saga in sagas if saga.subscription_id in self.subscription_ids]
        others = DeliveryFilter(
            status=self.status,
            event_type=self.event_type,
            source=self.source,
            customer=self.customer,
            owner=self.owner,
            since=self.since,
            until=self.until,
        )
        return others.matching(sagas)

    def as_json(self) -> dict[str, Any]:
        values = {name: value for name, value in vars(self).items() if value is not None}
        return {name: _plain(value) for name, value in values.items()}

    @classmethod
    def from_json(cls, text: str) -> RequestFilter:
        """The filter that was stored as this text. Raises InvalidConditions: another program may have stored it."""
        try:
            unknown = json.decode(text, type=dict[str, Raw]).keys() - cls.__dataclass_fields__.keys()
            request_filter = json.decode(text, type=cls)
        except (DecodeError, RecursionError) as error:
            raise InvalidConditions(str(error)) from None
        if unknown or request_filter.is_empty:
            raise InvalidConditions(f"no such conditions: {', '.join(sorted(unknown))}" if unknown else "no condition")
        return request_filter


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else sorted(value)


def of_subscription(subscription: Subscription, *, whole_endpoint: bool) -> RequestFilter:
    """The deliveries of a subscription; with `whole_endpoint`, of all of its endpoint."""
    ids = {subscription.pk}
    if whole_endpoint:
        same = Subscription.objects.filter(endpoint=subscription.endpoint_id or 0)
        ids |= set(same.values_list("id", flat=True))
    return RequestFilter(subscription_ids=ids)


@dataclass(frozen=True)
class Preview:
    """How many deliveries a request would affect; `more`: at least as many."""

    waiting: int
    in_progress: int
    more: bool


def preview(request_filter: RequestFilter) -> Preview:
    found = {True: 0, False: 0}
    open_sagas = OpenSagas(0, _newest_id())
    for _turn in range(0, MAX_EXAMINED, WINDOW):
        for saga in request_filter.matching(open_sagas.next(WINDOW)):
            found[saga.status in WAITING] += 1
        if open_sagas.at_end or found[True] > MAX_COUNTED:
            break
    waiting = min(found[True], MAX_COUNTED)
    return Preview(waiting, found[False], not open_sagas.at_end or found[True] > MAX_COUNTED)


def required_permissions(kind: str, *, many: bool, dead_letters: bool = False) -> list[str]:
    """A dead letter that is sent again is requeued, which has a permission of its own."""
    needed = [PERMISSIONS[kind]]
    needed += [BULK_PERMISSION] if many else []
    return needed + ([REQUEUE_PERMISSION] if dead_letters else [])


def request_delivery(kind: str, saga_id: int, *, by: Requester, reason: str, token: str | None = None) -> RequestResult:
    """Request something for one delivery. Raises as request_deliveries() does."""
    [result] = request_deliveries(kind, [saga_id], by=by, reason=reason, token=token)
    return result


@dataclass(frozen=True)
class RequestResult:
    """`created` is False if an earlier call with the same token has made the request."""

    request: DeliveryRequest
    created: bool


def request_deliveries(
    kind: str, saga_ids: Collection[int], *, by: Requester, reason: str, token: str | None = None
) -> list[RequestResult]:
    """One request for each of these deliveries, ordered by id: all of them or none.

    Raises PermissionDenied, or InvalidRequest for a bad reason, an unknown delivery or one whose status does not allow
    it. A call with the `token` of an earlier one returns the same requests.
    """
    ids, token = sorted(set(saga_ids)), token or new_token()
    require_permissions(by, required_permissions(kind, many=len(ids) > 1))
    reason = _reason(reason)
    tokens = {pk: _token(token, pk) if len(ids) > 1 else token for pk in ids}
    sagas = Saga.objects.in_bulk(ids)
    known = set(
        DeliveryRequest.objects.filter(request_token__in=tokens.values()).values_list("request_token", flat=True)
    )
    for pk in ids:
        if pk not in sagas:
            raise MissingDelivery(_("there is no delivery %(number)s") % {"number": pk})
        if kind == SEND_AGAIN and sagas[pk].status == DEAD_LETTERED:
            require_permissions(by, [REQUEUE_PERMISSION])
        if tokens[pk] not in known:
            CHECKS[kind](sagas[pk])

    def write() -> list[RequestResult]:
        return [_write(kind, pk, {}, by=by, reason=reason, token=tokens[pk]) for pk in ids]

    return _announced(in_transaction(write))


def request_matching(
    kind: str, request_filter: RequestFilter, *, by: Requester, reason: str, token: str | None = None
) -> RequestResult:
    """A request for all open deliveries that match the filter now. Raises as request_deliveries() does."""
    assert kind in (SEND_NOW, ABANDON)
    require_permissions(by, required_permissions(kind, many=True))
    reason = _reason(reason)
    if request_filter.is_empty:
        raise NoConditions(_("give at least one condition"))
    conditions, token = request_filter.as_json(), token or new_token()

    def write() -> list[RequestResult]:
        return [_write(kind, None, conditions, by=by, reason=reason, token=token)]

    [result] = _announced(in_transaction(write))
    return result


def require_permissions(by: Requester, permissions: Sequence[str]) -> None:
    for permission in permissions:
        if not by.has_perm(permission):
            raise PermissionDenied(f"{by.get_username()} lacks the permission {permission}")


def _reason(text: str) -> str:
    try:
        return clean_reason(text)
    except InvalidReason as error:
        raise InvalidRequest(str(error)) from None


def _token(token: str, saga_id: int) -> str:
    return hashlib.sha256(f"{token}:{saga_id}".encode()).hexdigest()[:TOKEN_LENGTH]


def _may_be_sent_now(saga: Saga) -> None:
    if saga.status not in WAITING:
        error = _("delivery %(number)s is %(status)s: it is not waiting for an attempt")
        raise WrongStatus(error % {"number": saga.pk, "status": saga.status})
    if saga.abandoned_by_id is not None:
        raise WrongStatus(_("delivery %(number)s is being abandoned") % {"number": saga.pk})


def _may_be_abandoned(saga: Saga) -> None:
    if saga.status not in OPEN:
        error = _("delivery %(number)s is %(status)s: it has ended")
        raise WrongStatus(error % {"number": saga.pk, "status": saga.status})


def _may_be_sent_again(saga: Saga) -> None:
    if saga.status not in TERMINAL:
        error = _("delivery %(number)s is %(status)s: it has not ended yet")
        raise WrongStatus(error % {"number": saga.pk, "status": saga.status})
    later = next_generation(saga)
    if later is not None:
        error = _("delivery %(number)s was sent again as delivery %(later)s")
        raise WrongStatus(error % {"number": saga.pk, "later": later})


CHECKS: Mapping[str, Callable[[Saga], None]] = {
    SEND_NOW: _may_be_sent_now,
    ABANDON: _may_be_abandoned,
    SEND_AGAIN: _may_be_sent_again,
}


def _newest_id() -> int:
    return Saga.objects.aggregate(newest=Max("id"))["newest"] or 0


def _write(
    kind: str, saga_id: int | None, conditions: dict[str, Any], *, by: Requester, reason: str, token: str
) -> RequestResult:
    """The request and its audit entry."""
    text = json.encode(conditions).decode()
    row = {
        "uid": new_uid(),
        "kind": kind,
        "saga_id": saga_id,
        "conditions": text,
        # Deliveries that are created later are not part of the request.
        "max_saga_id": saga_id or _newest_id(),
        "requested_by": by.get_username(),
        "reason": reason,
        "request_token": token,
    }
    pk = insert_one(DeliveryRequest, row, key=("request_token",))
    request = DeliveryRequest.objects.get(request_token=token)
    if pk is None:
        stored = (request.kind, request.saga_id, json.decode(request.conditions), request.requested_by)
        if stored != (kind, saga_id, conditions, by.get_username()):
            raise TokenUsed(_("another request was made with the same token"))
        return RequestResult(request, created=False)
    details = {"request": str(request.uid), **({"filter": conditions} if saga_id is None else {})}
    record(ACTIONS[kind], kind="saga", id=saga_id, by=by.get_username(), reason=reason, details=details)
    return RequestResult(request, created=True)


def _announced(results: list[RequestResult]) -> list[RequestResult]:
    for result in results:
        if result.created:
            request = result.request
            log(
                Log.REQUEST_CREATED,
                request=str(request.uid),
                kind=request.kind,
                saga_id=request.saga_id,
                requested_by=request.requested_by,
            )
    notify("orchestrator")
    return results


def find(uid: UUID) -> DeliveryRequest | None:
    return DeliveryRequest.objects.filter(uid=uid).first()
