"""An entry in the viewer's language. What people and programs have written themselves stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from .actions import API, COMMAND, CONSOLE

VIA = {
    CONSOLE: gettext_lazy("console"),
    API: gettext_lazy("API"),
    COMMAND: gettext_lazy("command line"),
}
KINDS = {
    "apikey": gettext_lazy("API key"),
    "deadletter": gettext_lazy("dead letter"),
    "group": gettext_lazy("group"),
    "subscription": gettext_lazy("subscription"),
    "user": gettext_lazy("user"),
    "workflow": gettext_lazy("workflow"),
}
# What the details call things; a test holds this to what is told.
NAMES = {
    "active": gettext_lazy("active"),
    "added": gettext_lazy("added"),
    "after_event": gettext_lazy("after event"),
    "answer": gettext_lazy("answer"),
    "base_delay": gettext_lazy("base delay"),
    "callback_url": gettext_lazy("callback url"),
    "choice": gettext_lazy("filter"),
    "chosen": gettext_lazy("chosen"),
    "custom_headers": gettext_lazy("custom headers"),
    "dead_letters": gettext_lazy("dead letters"),
    "description": gettext_lazy("description"),
    "email": gettext_lazy("e-mail address"),
    "error_code": gettext_lazy("error code"),
    "event_id": gettext_lazy("event"),
    "event_type": gettext_lazy("event type"),
    "expires_at": gettext_lazy("expires at"),
    "first_name": gettext_lazy("first name"),
    "forced": gettext_lazy("forced"),
    "groups": gettext_lazy("groups"),
    "is_active": gettext_lazy("may log in"),
    "is_staff": gettext_lazy("may use the console"),
    "is_superuser": gettext_lazy("may do everything"),
    "key_id": gettext_lazy("key id"),
    "last_name": gettext_lazy("last name"),
    "limit": gettext_lazy("how many at most"),
    "max_retry_limit": gettext_lazy("max retry limit"),
    "name": gettext_lazy("name"),
    "of": gettext_lazy("of"),
    "part": gettext_lazy("part"),
    "permissions": gettext_lazy("permissions"),
    "removed": gettext_lazy("removed"),
    "requeued": gettext_lazy("requeued"),
    "requeued_before": gettext_lazy("requeued before"),
    "completed": gettext_lazy("cut short before, and completed"),
    "saga": gettext_lazy("saga"),
    "saga_id": gettext_lazy("delivery"),
    "scheme": gettext_lazy("signing scheme"),
    "scopes": gettext_lazy("scopes"),
    "search": gettext_lazy("search"),
    "signing_scheme": gettext_lazy("signing scheme"),
    "since": gettext_lazy("since"),
    "source": gettext_lazy("source"),
    "step": gettext_lazy("step"),
    "subscription_id": gettext_lazy("subscription"),
    "until": gettext_lazy("until"),
    "username": gettext_lazy("user name"),
    "users": gettext_lazy("users"),
    "verified": gettext_lazy("verified"),
}


def facts(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each with its name, in words."""
    for name, value in details.items():
        yield str(NAMES.get(name, name)), _value(value)


def _value(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "–"
    match value:
        case bool():
            return _("yes") if value else _("no")
        case list():
            return ", ".join(_value(each) for each in value)
        case {"from": before, "to": after}:
            return f"{_value(before)} → {_value(after)}"
        case dict():
            return ", ".join(f"{name}: {text}" for name, text in facts(value))
        case _:
            return str(value)
