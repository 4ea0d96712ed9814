"""An entry in the viewer's language. What people and programs have written themselves stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from webhookhub.console import forms

from . import objects, permissions
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
    "filter": gettext_lazy("filter"),
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
        yield str(NAMES.get(name, name)), _value(name, value)


def _value(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "–"
    match value:
        case bool():
            return _("yes") if value else _("no")
        case list():
            return ", ".join(_value(name, each) for each in value)
        case {"from": before, "to": after}:
            return f"{_value(name, before)} → {_value(name, after)}"
        case dict():
            return ", ".join(f"{name}: {text}" for name, text in facts(value))
        case str() if name in SAID:
            return SAID[name](value)
        case _:
            return str(value)


def _answer(text: str) -> str:
    """What an endpoint answered to a verification; a number in it is a status."""
    status = re.search(r"\d+", text)
    if status is None:
        return _(text)
    return _(text.replace(status[0], "%(status)s", 1)) % {"status": status[0]}


def _kind(text: str) -> str:
    return str(KINDS.get(text, "")) or _(text)


def _moment(text: str) -> str:
    moment = parse_datetime(text)
    return forms.named(moment) if moment and moment.tzinfo else text


# Texts that are the hub's own; the others were written by people and programs.
SAID: Mapping[str, Callable[[str], str]] = {
    "added": permissions.in_words,
    "answer": _answer,
    "custom_headers": _,
    "expires_at": _moment,
    "of": _kind,
    "part": objects.part,
    "permissions": permissions.in_words,
    "removed": permissions.in_words,
    "since": _moment,
    "until": _moment,
}
# Marked where they are told from, for want of a place there.
TOLD = (gettext_noop("set"), gettext_noop("none"), gettext_noop("permission"))
