"""Making and changing subscriptions outside the console: the same rules, and errors that name the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import IntegrityError, transaction

from webhookhub import crypto
from webhookhub.db.vendors import is_duplicate

from . import audit, headers
from .models import Subscription

HEADERS = "headers"
# The others are the hub's to write: a verification, a rotation, the database.
EDITABLE = frozenset({"event_type", "callback_url", "active", "description", "max_retry_limit", "base_delay", HEADERS})
# The scheme goes with the secret: afterwards it is changed by replacing the secret only.
CHOSEN_AT_FIRST = EDITABLE | {"signing_scheme"}
# Where a fault is of no single field.
ITSELF = "subscription"


GIVEN_ANEW = (
    "must be given anew, or as {} for none, with an address at another host: the stored ones were meant for the old one"
)


class InvalidSubscription(ValueError):
    """Nothing was stored; `errors` says of each field what would be right."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {why}" for field, why in errors.items()))
        self.errors = dict(errors)


class AlreadySubscribed(Exception):
    """Nothing was stored: this address has a subscription to this event type."""

    def __init__(self, number: int | None) -> None:
        which = f" as subscription {number}" if number else ""
        super().__init__(f"this address is subscribed to this event type already{which}")
        self.number = number


def create(values: Mapping[str, Any]) -> Subscription:
    """`values` are fields by name; `headers` are `Name: value` pairs, which are stored encrypted."""
    _require(CHOSEN_AT_FIRST, values)
    return _save(Subscription(), values)


def change(subscription: Subscription, values: Mapping[str, Any]) -> Subscription:
    """Change the named fields and no others: they may have been changed a moment ago."""
    _require(EDITABLE, values)
    _keep_headers_from_others(subscription, values)
    return _save(subscription, values) if values else subscription


def header_names(subscription: Subscription) -> list[str]:
    """Without the values, which are secrets; none if the keys in force do not open them."""
    try:
        return headers.names(crypto.decrypt(subscription.custom_headers)) if subscription.custom_headers else []
    except crypto.Undecipherable:
        return []


def _require(allowed: frozenset[str], values: Mapping[str, Any]) -> None:
    if others := sorted(values.keys() - allowed):
        why = f"cannot be set here; what can be is {', '.join(sorted(allowed))}"
        raise InvalidSubscription(dict.fromkeys(others, why))


def _keep_headers_from_others(subscription: Subscription, values: Mapping[str, Any]) -> None:
    address = values.get("callback_url")
    if not isinstance(address, str) or not subscription.custom_headers or HEADERS in values:
        return
    if headers.belong_elsewhere(subscription.callback_url, address):
        raise InvalidSubscription({HEADERS: GIVEN_ANEW})


def _save(subscription: Subscription, values: Mapping[str, Any]) -> Subscription:
    columns = {name: value for name, value in values.items() if name != HEADERS}
    before = audit.facts(subscription)
    for name, value in columns.items():
        setattr(subscription, name, value)
    if HEADERS in values:
        subscription.custom_headers = _encrypted(values[HEADERS])
        columns["custom_headers"] = subscription.custom_headers
    changed = {*values, *columns}
    try:
        subscription.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        faults = _named(error)
        if not subscription._state.adding:
            # What was stored when other rules held stands in nobody's way: least of all of switching it off.
            faults = {field: why for field, why in faults.items() if field in changed or field == ITSELF}
        if faults:
            raise InvalidSubscription(faults) from None
    try:
        # Asked of the key itself: whoever looks first may be overtaken.
        with transaction.atomic():
            if subscription._state.adding:
                subscription.save()
                audit.tell_new(subscription)
            else:
                subscription.save(update_fields=[*columns, "updated_at"])
                audit.tell_change(subscription, before)
    except IntegrityError as error:
        if not is_duplicate(error):
            raise
        raise AlreadySubscribed(_rival(subscription)) from None
    return subscription


def _encrypted(given: Mapping[str, str]) -> str:
    lines = [f"{name}: {value}" for name, value in given.items()]
    if any("\n" in line or "\r" in line for line in lines):
        raise InvalidSubscription({HEADERS: "a header must not hold a line break"})
    if misnamed := [name for name in given if not headers.NAME.match(name)]:
        raise InvalidSubscription({HEADERS: f"{misnamed[0]!r} cannot be the name of a header"})
    try:
        parsed = headers.parse("\n".join(lines))
    except headers.UnacceptableHeaders as error:
        raise InvalidSubscription({HEADERS: str(error)}) from None
    return crypto.encrypt("\n".join(parsed)) if parsed else ""


def _named(error: ValidationError) -> dict[str, str]:
    return {
        ITSELF if field == NON_FIELD_ERRORS else field: " ".join(messages)
        for field, messages in error.message_dict.items()
    }


def _rival(subscription: Subscription) -> int | None:
    same = Subscription.objects.filter(event_type=subscription.event_type, callback_url=subscription.callback_url)
    return same.exclude(pk=subscription.pk).values_list("id", flat=True).first()
