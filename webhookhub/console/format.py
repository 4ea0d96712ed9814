"""Values as text and HTML for the pages, in the viewer's language. Text from outside is always escaped."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from webhookhub.egress import error_codes

NOTHING = "–"
HTTP = "http_"
MINUTE, HOUR, DAY = 60, 3600, 86400
STATUSES = {
    "Pending": ("busy", gettext_noop("waiting")),
    "InProgress": ("busy", gettext_noop("in progress")),
    "Leased": ("busy", gettext_noop("sending")),
    "PendingRetry": ("warn", gettext_noop("waiting to retry")),
    "Completed": ("good", gettext_noop("delivered")),
    "DeadLettered": ("bad", gettext_noop("dead letter")),
    "Failed": ("bad", gettext_noop("failed")),
}
MAX_CHARACTERS = 500_000
# Characters that change the order of the text around them.
DIRECTION_MARKS = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
# Control characters except line feed and tab.
CONTROLS = (*(code for code in range(0x20) if chr(code) not in "\n\t"), *range(0x7F, 0xA0))
ESCAPES = {code: f"\\u{code:04x}" for code in (*DIRECTION_MARKS, *CONTROLS)}


def visible(text: str) -> str:
    """Returns the text with invisible characters and lone surrogates written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode().translate(ESCAPES)


def block(text: str) -> SafeString:
    """A preformatted block, cut at MAX_CHARACTERS."""
    text = visible(text)
    cut = "\n" + _("… %(number)s more characters") % {"number": len(text) - MAX_CHARACTERS} if is_cut(text) else ""
    # Alpine and htmx ignore the element, so that nothing in the text can act on the page.
    return format_html(
        '<pre class="hub-text" dir="ltr" tabindex="0" translate="no" x-ignore hx-disable>{}{}</pre>',
        text[:MAX_CHARACTERS],
        cut,
    )


def json_block(text: str) -> SafeString:
    return block(pretty(text))


def pretty(text: str) -> str:
    """An indented JSON document; invalid JSON is returned unchanged."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return text


def is_cut(text: str) -> bool:
    """Whether `block` cuts the text."""
    return len(visible(text)) > MAX_CHARACTERS


def local_time(when: datetime | None) -> str:
    """A time element in UTC; console.js shows it in the viewer's time zone."""
    if when is None:
        return NOTHING
    when = when.astimezone(UTC)
    return format_html('<time datetime="{}">{}</time>', when.isoformat(), f"{when:%Y-%m-%d %H:%M:%S} UTC")


def error(code: str | None) -> str:
    """An error code and its meaning."""
    if not code:
        return NOTHING
    meaning = error_codes.describe(code)
    return code if meaning == code else f"{code}: {meaning}"


def short_error(code: str | None) -> str:
    """The code, with its meaning as a tooltip."""
    return format_html('<span title="{}">{}</span>', error_codes.describe(code), code) if code else NOTHING


def page_url(model: type[Model], pk: int) -> str:
    """The URL of a row's page."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[pk])


def list_url(model: type[Model], query: str) -> str:
    """The URL of a list, filtered by a query such as `event=5`."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") + f"?{query}"


def link(url: str, text: Any) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text)


def status_label(status: str) -> str:
    return _(STATUSES[status][1]) if status in STATUSES else status


def status_badge(status: str) -> SafeString:
    """The label of a delivery's or attempt's status in its colour, with the status itself as a tooltip."""
    colour = STATUSES[status][0] if status in STATUSES else "plain"
    return format_html('<span class="hub-badge hub-{}" title="{}">{}</span>', colour, status, status_label(status))


# By the reasons of sagas.waiting.
WAITING_FOR = {
    "paused": gettext_noop("The subscription is switched off: its deliveries wait until it is switched on again."),
    "unverified": gettext_noop("The subscription is not verified: its deliveries wait until it is."),
    "disabled": gettext_noop("The endpoint is disabled: its deliveries wait until it is enabled or verified again."),
    "customer_disabled": gettext_noop("The customer is disabled: its deliveries wait until it is enabled again."),
    "failing": gettext_noop("The endpoint only fails and is probed now and then: its deliveries wait for a success."),
    "rate_limit": gettext_noop("The endpoint has a rate limit: its deliveries wait for their turn."),
    "busy": gettext_noop("The endpoint is busy: its deliveries wait for their turn."),
}
# The same in a list.
WAITING_SHORT = {
    "paused": gettext_noop("paused"),
    "unverified": gettext_noop("not verified"),
    "disabled": gettext_noop("disabled"),
    "customer_disabled": gettext_noop("customer disabled"),
}


def waiting_for(reason: str | None) -> str | None:
    """Why a delivery is not attempted now, as a sentence; None if it only waits for its time."""
    return _(WAITING_FOR[reason]) if reason else None


def number(value: int) -> str:
    return f"{value:,}"


def percent(share: float | None) -> str:
    """A share of 1 in percent. Only the exact values 0 and 1 are shown as 0 % and 100 %."""
    if share is None:
        return NOTHING
    value = share * 100
    return f"{value:.0f} %" if value in (0, 100) else f"{min(max(value, 0.1), 99.9):.1f} %"


def milliseconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value < 1000:
        return _("%(number)s ms") % {"number": f"{value:.0f}"}
    return duration(timedelta(milliseconds=value))


def duration(length: timedelta) -> str:
    """To about two digits: `1.5 s`, `40 s`, `12 min`, `6 h`, `3 d`."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return _("%(number)s s") % {"number": f"{seconds:.2g}"}
    if seconds < 2 * MINUTE:
        return _("%(number)s s") % {"number": round(seconds)}
    if seconds < 2 * HOUR:
        return _("%(number)s min") % {"number": round(seconds / MINUTE)}
    if seconds < 2 * DAY:
        return _("%(number)s h") % {"number": round(seconds / HOUR)}
    return _("%(number)s d") % {"number": round(seconds / DAY)}
