"""Create, change and delete endpoints: what the API, the console and the command do with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from webhookhub.auditlog import actions, context
from webhookhub.auditlog.record import changes, record
from webhookhub.db import clock
from webhookhub.logs import Log, log
from webhookhub.validators import clean_reason

from . import health, patterns, services
from .endpoint_models import AUTHOR_LENGTH, Endpoint
from .models import Subscription
from .services import SECRET, InvalidSubscription

EVENT_TYPES = "event_types"
EDITABLE = services.EDITABLE - {"event_type", services.FILTER} | {EVENT_TYPES}
SET_ON_CREATE = EDITABLE | {"signing_scheme", "customer_key", SECRET}
MAX_EVENT_TYPES = 200
AUDITED = tuple(name for name in services.AUDITED if name not in ("event_type", services.FILTER))
# What an endpoint that a person has vouched for has instead of the result of a challenge.
VOUCHED = "vouched"


def create(values: Mapping[str, Any]) -> Endpoint:
    """With a subscription to each of `event_types`, which may be patterns."""
    services.reject_unknown(values, SET_ON_CREATE)
    endpoint = Endpoint()
    services.assign(endpoint, {name: value for name, value in values.items() if name not in (SECRET, EVENT_TYPES)})
    if values.get(SECRET) is not None:
        endpoint.secret = services.own_secret(values[SECRET], endpoint.signing_scheme)
    else:
        endpoint.secret = services.new_secret_for(endpoint.signing_scheme)
    services.validate(endpoint)
    wanted = _event_types(values.get(EVENT_TYPES, ()))
    with services.duplicates_reported(Subscription(callback_url=endpoint.callback_url)), transaction.atomic():
        services.require_customer(endpoint.customer_key)
        Subscription.objects.require_keys()
        endpoint.save()
        _subscribe(endpoint, wanted)
        filled = {name: value for name, value in _values(endpoint).items() if value not in (None, "")}
        details = {name: services.audited(name, value) for name, value in filled.items()} | {EVENT_TYPES: wanted}
        record(actions.CREATE_ENDPOINT, endpoint, name=endpoint.audit_name, details=details)
    return endpoint


def change(endpoint: Endpoint, values: Mapping[str, Any]) -> Endpoint:
    """Change only the named fields, of the endpoint and so of its subscriptions. `event_types` replaces all of them."""
    services.reject_unknown(values, EDITABLE)
    wanted = _event_types(values[EVENT_TYPES]) if EVENT_TYPES in values else None
    with services.duplicates_reported(Subscription(callback_url=endpoint.callback_url)), transaction.atomic():
        if values.get("callback_url") not in (None, endpoint.callback_url):
            # First, like a process that disables an endpoint: in another order, they would block each other.
            health.forget_url(endpoint.pk)
        stored = Endpoint.objects.existing().select_for_update().get(pk=endpoint.pk)
        services.check_fits(stored, values)
        columns = services.assign(endpoint, {name: value for name, value in values.items() if name != EVENT_TYPES})
        services.validate(endpoint, only=columns)
        columns |= services.without_verification(endpoint, stored)
        before = _values(stored) | {EVENT_TYPES: event_types(endpoint)}
        if columns:
            endpoint.save(update_fields=columns)
        # Other columns may have changed since it was loaded; the row is locked now.
        endpoint.refresh_from_db()
        if wanted is not None:
            _replace(endpoint, wanted)
        _record_change(endpoint, before, _values(endpoint) | {EVENT_TYPES: event_types(endpoint)})
    return endpoint


def delete(endpoint: Endpoint) -> bool:
    """Hide it and stop its deliveries; what it got stays. False if it was deleted before."""
    now = clock.now()
    with transaction.atomic():
        rows = Endpoint.objects.existing().filter(pk=endpoint.pk)
        # A trigger marks its subscriptions, too.
        if deleted := bool(rows.update(deleted_at=now, active=False, updated_at=now)):
            record(actions.DELETE_ENDPOINT, endpoint, name=endpoint.audit_name)
    if deleted:
        log(Log.ENDPOINT_DELETED, endpoint_id=endpoint.pk)
    endpoint.refresh_from_db()
    return deleted


def vouch(endpoint: Endpoint, *, reason: str) -> None:
    """A person answers for an endpoint that cannot return a challenge: it is verified. Raises InvalidReason."""
    reason, by, now = clean_reason(reason), context.current().name[:AUTHOR_LENGTH], clock.now()
    with transaction.atomic():
        Endpoint.objects.existing().filter(pk=endpoint.pk, callback_url=endpoint.callback_url).update(
            verified=True,
            verification_at=now,
            verification_result=VOUCHED,
            vouched_by=by,
            vouch_reason=reason,
            updated_at=now,
        )
        record(actions.VOUCH, endpoint, name=endpoint.audit_name, reason=reason)
    endpoint.refresh_from_db()
    log(Log.ENDPOINT_VOUCHED, endpoint_id=endpoint.pk)


def event_types(endpoint: Endpoint) -> list[str]:
    rows = Subscription.objects.existing().filter(endpoint=endpoint.pk)
    return list(rows.order_by("event_type").values_list("event_type", flat=True))


def _event_types(given: Sequence[str]) -> list[str]:
    """Normalised, each once, in order."""
    normal = list(dict.fromkeys(patterns.normalise(name) for name in given))
    if len(normal) > MAX_EVENT_TYPES:
        raise InvalidSubscription({EVENT_TYPES: _("An endpoint has at most %(count)s.") % {"count": MAX_EVENT_TYPES}})
    for name in normal:
        try:
            services.validate(Subscription(event_type=name), only={"event_type"})
        except InvalidSubscription as error:
            raise InvalidSubscription({EVENT_TYPES: f"{name!r}: {error.errors['event_type']}"}) from None
    return normal


def _subscribe(endpoint: Endpoint, names: Collection[str]) -> None:
    for name in names:
        subscription = Subscription(event_type=name, customer_key=endpoint.customer_key)
        subscription.join(endpoint)
        subscription.save()


def _replace(endpoint: Endpoint, wanted: Collection[str]) -> None:
    rows = Subscription.objects.existing().filter(endpoint=endpoint.pk)
    present = set(rows.values_list("event_type", flat=True))
    removed, now = present.difference(wanted), clock.now()
    if removed:
        rows.filter(event_type__in=removed).update(deleted_at=now, active=False, updated_at=now)
    _subscribe(endpoint, [name for name in wanted if name not in present])


def _values(endpoint: Endpoint) -> dict[str, Any]:
    return {name: getattr(endpoint, name) for name in AUDITED}


def _record_change(endpoint: Endpoint, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    changed = changes(before, after)
    if not changed:
        return
    action = actions.EDIT_ENDPOINT
    if changed.keys() == {"active"}:
        action = actions.RESUME_ENDPOINT if endpoint.active else actions.PAUSE_ENDPOINT
    details = {
        name: {side: services.audited(name, value) for side, value in pair.items()} for name, pair in changed.items()
    }
    record(action, endpoint, name=endpoint.audit_name, details=details)
