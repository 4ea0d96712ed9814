"""Audit log entries as text in the viewer's language. Names that users have given are not translated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from . import permissions

OBJECT_TYPES = {
    "apikey": gettext_lazy("API key"),
    "customer": gettext_lazy("customer"),
    "deadletter": gettext_lazy("dead letter"),
    "endpoint": gettext_lazy("endpoint"),
    "eventtype": gettext_lazy("event type"),
    "group": gettext_lazy("group"),
    "saga": gettext_lazy("delivery"),
    "subscription": gettext_lazy("subscription"),
    "user": gettext_lazy("user"),
    "workflow": gettext_lazy("workflow"),
}
# Labels of all keys in `details`.
LABELS = {
    "active": gettext_lazy("active"),
    "address": gettext_lazy("address"),
    "after_event": gettext_lazy("after event"),
    "base_delay": gettext_lazy("base delay"),
    "callback_url": gettext_lazy("callback URL"),
    "customer": gettext_lazy("customer"),
    "customer_key": gettext_lazy("customer"),
    "filter": gettext_lazy("filter"),
    "client_id": gettext_lazy("client id"),
    "cause": gettext_lazy("cause"),
    "count": gettext_lazy("count"),
    "custom_headers": gettext_lazy("custom headers"),
    "dead_letters": gettext_lazy("dead letters"),
    "description": gettext_lazy("description"),
    "email": gettext_lazy("e-mail address"),
    "error_code": gettext_lazy("error code"),
    "event_id": gettext_lazy("event"),
    "event_type": gettext_lazy("event type"),
    "event_types": gettext_lazy("event types"),
    "expires_at": gettext_lazy("expires at"),
    "fingerprint": gettext_lazy("fingerprint"),
    "first_name": gettext_lazy("first name"),
    "forced": gettext_lazy("forced"),
    "groups": gettext_lazy("groups"),
    "groups_added": gettext_lazy("groups added"),
    "groups_removed": gettext_lazy("groups removed"),
    "is_active": gettext_lazy("may log in"),
    "is_staff": gettext_lazy("may use the console"),
    "is_superuser": gettext_lazy("may do everything"),
    "key_id": gettext_lazy("key id"),
    "last_name": gettext_lazy("last name"),
    "limit": gettext_lazy("limit"),
    "max_retry_limit": gettext_lazy("max retry limit"),
    "retry_delays": gettext_lazy("retry delays"),
    "method": gettext_lazy("method"),
    "name": gettext_lazy("name"),
    "networks": gettext_lazy("networks"),
    "omitted": gettext_lazy("further failures without an entry"),
    "part": gettext_lazy("part"),
    "parts": gettext_lazy("parts"),
    "permissions": gettext_lazy("permissions"),
    "permissions_added": gettext_lazy("permissions added"),
    "permissions_removed": gettext_lazy("permissions removed"),
    "request": gettext_lazy("request"),
    "requeued": gettext_lazy("requeued"),
    "requeued_before": gettext_lazy("requeued before"),
    "result": gettext_lazy("result"),
    "saga": gettext_lazy("workflow run"),
    "saga_id": gettext_lazy("delivery"),
    "scheme": gettext_lazy("signing scheme"),
    "scopes": gettext_lazy("scopes"),
    "search": gettext_lazy("search"),
    "signing_scheme": gettext_lazy("signing scheme"),
    "since": gettext_lazy("since"),
    "source": gettext_lazy("source"),
    "status": gettext_lazy("status"),
    "step": gettext_lazy("step"),
    "subject": gettext_lazy("subject"),
    "subscription_id": gettext_lazy("subscription"),
    "subscription_ids": gettext_lazy("subscriptions"),
    "token_url": gettext_lazy("token URL"),
    "until": gettext_lazy("until"),
    "username": gettext_lazy("user name"),
    "users": gettext_lazy("users"),
    "users_added": gettext_lazy("users added"),
    "users_removed": gettext_lazy("users removed"),
    "verified": gettext_lazy("verified"),
    "enabled": gettext_lazy("endpoint enabled"),
    "disabled_reason": gettext_lazy("was disabled because"),
    "rate_limit": gettext_lazy("rate limit"),
    "deprecated": gettext_lazy("deprecated"),
    "deprecation_note": gettext_lazy("deprecation note"),
    "group": gettext_lazy("group"),
    "json_schema": gettext_lazy("JSON Schema"),
    "label_filter": gettext_lazy("label filter"),
    "label_pointers": gettext_lazy("label pointers"),
    "sample": gettext_lazy("sample payload"),
    "strict": gettext_lazy("strict"),
}


def object_text(object_type: str, object_id: int | None, name: str, details: Mapping[str, Any]) -> str:
    """The object's name; without a name, the text is made of its type and id, or of the details."""
    if name:
        return name
    if object_id is not None:
        return f"{OBJECT_TYPES.get(object_type, object_type)} {object_id}"
    if object_type == "subscription":
        return _("all subscriptions")
    if "filter" in details:
        text = _joined(details["filter"]) or _("all dead letters")
        return f"{text} ({_part(details)})" if "part" in details else text
    if "requeued" in details:
        return _("%(count)s dead letters") % {"count": details["requeued"] + details.get("requeued_before", 0)}
    return ""


def labelled(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each detail as its label and its value."""
    for name, value in details.items():
        yield str(LABELS.get(name, name)), _value(name, value)


def _value(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "–"
    match value:
        case bool():
            return _("yes") if value else _("no")
        case list():
            return ", ".join(_value(name, item) for item in value)
        case {"from": before, "to": after}:
            return f"{_value(name, before)} → {_value(name, after)}"
        case dict():
            return _joined(value)
        case str() if name in FORMATS:
            return FORMATS[name](value)
        case _:
            return str(value)


def _joined(details: Mapping[str, Any]) -> str:
    return ", ".join(f"{label}: {text}" for label, text in labelled(details))


def _part(details: Mapping[str, Any]) -> str:
    if "parts" in details:
        return _("part %(part)s of %(parts)s") % {"part": details["part"], "parts": details["parts"]}
    return _("part %(part)s") % {"part": details["part"]}


def _time(text: str) -> str:
    """In the viewer's time zone."""
    time = parse_datetime(text)
    return localtime(time).isoformat(sep=" ") if time and time.tzinfo else text


FORMATS: Mapping[str, Callable[[str], str]] = {
    "expires_at": _time,
    "since": _time,
    "until": _time,
    "permissions": permissions.describe,
    "permissions_added": permissions.describe,
    "permissions_removed": permissions.describe,
}
