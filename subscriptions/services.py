"""Create and change subscriptions: the only write path of the columns that people edit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from webhookhub import crypto
from webhookhub.auditlog import actions
from webhookhub.auditlog.record import changes, record, url_without_query
from webhookhub.db.errors import Kind, kind_of

from . import credential_services, customers, filters, headers, health, patterns
from .endpoint_models import Endpoint, EndpointSettings
from .models import Subscription, endpoint_id, locked
from .signing import SYMMETRIC, BadSecret, check_shared, new_secret

HEADERS = "headers"
# All other columns are written by verification, rotation or the database.
RETRIES = ("max_retry_limit", "base_delay", "retry_delays")
FILTER = "label_filter"
EDITABLE = frozenset({"event_type", "callback_url", "active", "description", *RETRIES, "rate_limit", FILTER, HEADERS})
# Of an endpoint, with the values that a new one has.
DEFAULTS = {
    "active": True,
    "description": "",
    **dict.fromkeys(RETRIES),
    "rate_limit": None,
    "signing_scheme": SYMMETRIC,
}
# The signing scheme belongs to the secret: later it is changed by a rotation only. The customer is never changed.
SET_ON_CREATE = EDITABLE | {"signing_scheme", "customer_key"}
# A shared secret that receivers know already, from another system. It is encrypted before it is stored.
SECRET = "secret"  # noqa: S105
# In the order of the audit log.
AUDITED = (
    *("customer_key", "event_type", "callback_url", "active", "description", "signing_scheme", *RETRIES),
    *("rate_limit", FILTER, "custom_headers"),
)


class InvalidSubscription(ValueError):
    """Nothing was stored; `errors` maps each field to its error."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {error}" for field, error in errors.items()))
        self.errors = dict(errors)


class AlreadySubscribed(Exception):
    """Nothing was stored: this URL already has a subscription to this event type."""

    def __init__(self, pk: int | None) -> None:
        which = f" as subscription {pk}" if pk else ""
        super().__init__(f"this address is subscribed to this event type already{which}")


class ChangedSince(Exception):
    """Nothing was stored: the subscription has been changed since it was shown."""


def create(values: Mapping[str, Any]) -> Subscription:
    """`values` are fields by name; `headers` maps names to values, which are stored encrypted."""
    reject_unknown(values, SET_ON_CREATE | {SECRET})
    subscription = Subscription()
    assign(subscription, {name: value for name, value in values.items() if name != SECRET})
    if values.get(SECRET) is not None:
        subscription.secret = own_secret(values[SECRET], subscription.signing_scheme)
    validate(subscription)
    with duplicates_reported(subscription), transaction.atomic():
        require_customer(subscription.customer_key)
        _join_endpoint(subscription, values)
        subscription.save()
        filled = {name: value for name, value in _values(subscription).items() if value not in (None, "")}
        details = {name: audited(name, value) for name, value in filled.items()}
        record(actions.SUBSCRIBE, subscription, name=subscription.audit_name, details=details)
    return subscription


def change(subscription: Subscription, values: Mapping[str, Any], *, seen: str | None = None) -> Subscription:
    """Change only the named fields. With `seen`, raise ChangedSince if that is no longer the stored version."""
    reject_unknown(values, EDITABLE)
    if not values:
        return subscription
    with duplicates_reported(subscription), transaction.atomic():
        shared = is_shared(subscription)
        if not shared and values.get("callback_url") not in (None, subscription.callback_url):
            # First, like a process that disables an endpoint: in another order, they would block each other.
            health.forget_url(endpoint_id(subscription))
        stored = locked(subscription)
        if seen is not None and seen != version(stored):
            raise ChangedSince
        check_fits(stored, values)
        columns = assign(subscription, values)
        # An earlier release may have stored values that are invalid today; they must not block other changes.
        validate(subscription, only=columns)
        columns |= without_verification(subscription, stored)
        if subscription.custom_headers and "custom_headers" in columns:
            Subscription.objects.require_keys()
        subscription.save(update_fields=columns)
        if shared:
            # A trigger has given it an endpoint of its own: the other subscriptions keep their settings.
            subscription.refresh_from_db(fields=["endpoint"])
        _record_change(stored, subscription)
    return subscription


def without_verification(target: EndpointSettings, stored: EndpointSettings) -> set[str]:
    """If it has another URL, clear the verification of the old one, and return the columns to write."""
    if target.callback_url == stored.callback_url:
        return set()
    target.verified, target.verification_result, target.verification_at = False, "", None
    target.disabled_at = None  # it belongs to the old URL
    return {"verified", "verification_result", "verification_at", "disabled_at"}


def check_fits(stored: EndpointSettings, values: Mapping[str, Any]) -> None:
    check_headers_fit_host(stored, values)
    check_credentials_fit_host(stored, values)
    check_headers_fit_token(stored, values)


def is_shared(subscription: Subscription) -> bool:
    """Whether its endpoint has other subscriptions."""
    same = Subscription.objects.existing().filter(endpoint=endpoint_id(subscription))
    return same.exclude(pk=subscription.pk).exists()


def version(subscription: Subscription) -> str:
    """A hash of all editable fields. Keyed, because the form that carries it may hide some of them."""
    values = [str(getattr(subscription, name)) for name in sorted(EDITABLE - {HEADERS})]
    try:
        # Decrypted: encryption with another key changes nothing.
        values.append(crypto.decrypt(subscription.custom_headers) if subscription.custom_headers else "")
    except crypto.Undecipherable:
        values.append(subscription.custom_headers)
    return salted_hmac("subscriptions.version", json.dumps(values), algorithm="sha256").hexdigest()


def check_headers_fit_host(stored: EndpointSettings, values: Mapping[str, Any]) -> None:
    """Raise InvalidSubscription if another host would get the stored headers, which may hold secrets."""
    url = values.get("callback_url")
    if not isinstance(url, str) or not stored.custom_headers or HEADERS in values:
        return
    try:
        same_host = urlsplit(url).netloc == urlsplit(stored.callback_url).netloc
    except ValueError:
        return  # reported as an error of the URL
    if not same_host:
        raise InvalidSubscription(
            {HEADERS: _("The stored headers were meant for the old host: set new headers, or remove them.")}
        )


def check_headers_fit_token(stored: EndpointSettings, values: Mapping[str, Any]) -> None:
    """Raise InvalidSubscription if a custom header would be sent in addition to that of the OAuth2 token."""
    names = {name.lower() for name in values.get(HEADERS) or ()}
    if "authorization" in names and credential_services.shown_oauth2(stored) is not None:
        raise InvalidSubscription({HEADERS: _("Authorization is sent with the OAuth2 token: leave it out.")})


def check_credentials_fit_host(stored: EndpointSettings, values: Mapping[str, Any]) -> None:
    """Raise InvalidSubscription if another host would get the stored credentials."""
    if not credential_services.fit_host(stored, values.get("callback_url")):
        raise InvalidSubscription(
            {"callback_url": _("The stored credentials were meant for the old host: remove them first.")}
        )


def header_names(subscription: EndpointSettings) -> list[str]:
    """Empty if the encryption keys do not open the headers."""
    return headers.stored_names(subscription.custom_headers)


def reject_unknown(values: Mapping[str, Any], allowed: frozenset[str]) -> None:
    if unknown := sorted(values.keys() - allowed):
        error = f"cannot be set here; what can be set is {', '.join(sorted(allowed))}"
        raise InvalidSubscription(dict.fromkeys(unknown, error))


def assign(subscription: EndpointSettings, values: Mapping[str, Any]) -> set[str]:
    """Set the fields and return the columns to write."""
    columns = {name: value for name, value in values.items() if name != HEADERS}
    if HEADERS in values:
        columns["custom_headers"] = _encrypted(values[HEADERS])
    if isinstance(columns.get(FILTER), list):
        columns[FILTER] = _parsed_filter(columns[FILTER])
    if isinstance(columns.get("event_type"), str):
        columns["event_type"] = patterns.normalise(columns["event_type"])
    for name, value in columns.items():
        setattr(subscription, name, value)
    return set(columns)


def _parsed_filter(conditions: list[Any]) -> filters.LabelFilter | None:
    try:
        return filters.parse(conditions)
    except filters.InvalidFilter as error:
        raise InvalidSubscription({f"{FILTER}{error.place}": error.why}) from None


def validate(subscription: EndpointSettings, only: set[str] | None = None) -> None:
    try:
        # Uniqueness is left to the index: a query could be overtaken by another insert.
        subscription.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as invalid:
        errors = {
            field: " ".join(messages)
            for field, messages in invalid.message_dict.items()
            if only is None or field in only
        }
        if errors:
            raise InvalidSubscription(errors) from None


def own_secret(secret: str, scheme: str) -> str:
    """Encrypted."""
    if scheme != SYMMETRIC:
        raise InvalidSubscription({SECRET: _("Only a subscription that signs with v1 can have a given secret.")})
    try:
        check_shared(secret)
    except BadSecret as error:
        raise InvalidSubscription({SECRET: str(error)}) from None
    return crypto.encrypt(secret)


def require_customer(key: str) -> None:
    """The row is locked: if the customer is being disabled, it is before this subscription or with it."""
    if key and not customers.lock_enabled(key):
        raise InvalidSubscription({"customer_key": _("There is no enabled customer with this key.")})


def new_secret_for(scheme: str) -> str:
    """Encrypted."""
    return crypto.encrypt(new_secret(scheme))


def _join_endpoint(subscription: Subscription, values: Mapping[str, Any]) -> None:
    """Share the customer's endpoint with this URL, if it has the settings that were given; otherwise get a new one."""
    endpoints = Endpoint.objects.existing().filter(
        customer_key=subscription.customer_key, callback_url=subscription.callback_url
    )
    for endpoint in endpoints.select_for_update().order_by("id"):
        if _has_settings(endpoint, subscription, values):
            subscription.join(endpoint)
            return


def _has_settings(endpoint: Endpoint, new: Subscription, values: Mapping[str, Any]) -> bool:
    """Whether the endpoint has what was given; what was left out, or is the default, is whatever the endpoint has."""
    for name, default in DEFAULTS.items():
        if getattr(new, name) not in (default, getattr(endpoint, name)):
            return False
    try:
        same_secret = not values.get(SECRET) or crypto.decrypt(endpoint.secret) == values[SECRET]
        return same_secret and _plain_headers(new) in ("", _plain_headers(endpoint))
    except crypto.Undecipherable:
        return False


def _plain_headers(target: EndpointSettings) -> str:
    return crypto.decrypt(target.custom_headers) if target.custom_headers else ""


def _encrypted(custom: Mapping[str, str]) -> str:
    lines = [f"{name}: {value}" for name, value in custom.items()]
    if any("\n" in line or "\r" in line for line in lines):
        raise InvalidSubscription({HEADERS: "a header must not contain a line break"})
    if invalid := [name for name in custom if not headers.NAME.match(name)]:
        raise InvalidSubscription({HEADERS: f"{invalid[0]!r} is not a valid header name"})
    try:
        parsed = headers.parse("\n".join(lines))
    except headers.UnacceptableHeaders as error:
        raise InvalidSubscription({HEADERS: str(error)}) from None
    return crypto.encrypt("\n".join(parsed)) if parsed else ""


def _record_change(before: Subscription, after: Subscription) -> None:
    """Writes nothing if nothing has changed."""
    changed = changes(_values(before), _values(after))
    if not changed:
        return
    action = actions.EDIT
    if changed.keys() == {"active"}:
        action = actions.RESUME if after.active else actions.PAUSE
    details = {name: {side: audited(name, value) for side, value in pair.items()} for name, pair in changed.items()}
    record(action, after, name=after.audit_name, details=details)


def _values(subscription: Subscription) -> dict[str, Any]:
    return {name: getattr(subscription, name) for name in AUDITED}


def audited(name: str, value: Any) -> Any:
    """Without secrets: the URL's query may hold a password, and of the headers only their presence is kept."""
    if name == "callback_url":
        return url_without_query(value)
    if name == FILTER and value is not None:
        return str(value)
    return bool(value) if name == "custom_headers" else value


@contextmanager
def duplicates_reported(subscription: Subscription) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        if kind_of(error) is not Kind.DUPLICATE:
            raise
        same = Subscription.objects.filter(
            event_type=subscription.event_type,
            callback_url=subscription.callback_url,
            customer_key=subscription.customer_key,
        )
        raise AlreadySubscribed(same.exclude(pk=subscription.pk).values_list("id", flat=True).first()) from None
