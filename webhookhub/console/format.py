"""How values look on a page. Whatever a producer or a receiver sent is text here, never markup."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from webhookhub.egress.errors import MEANING

NOTHING = "–"
HTTP = "http_"
MOST_CHARACTERS = 500_000
# They would show the text around them in another order than it has.
DIRECTION_MARKS = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
# They mean something to a terminal and nothing to a reader; a line's end and a tab are what they are.
CONTROLS = (*(code for code in range(0x20) if chr(code) not in "\n\t"), *range(0x7F, 0xA0))
MADE_VISIBLE = {code: f"\\u{code:04x}" for code in (*DIRECTION_MARKS, *CONTROLS)}


def visible(text: str) -> str:
    """Text of strangers, with whatever in it is not to be seen made visible."""
    # Half a surrogate pair is text to JSON but not to UTF-8.
    return text.encode("utf-8", "backslashreplace").decode().translate(MADE_VISIBLE)


def block(text: str) -> SafeString:
    """Text of several lines, as it is."""
    text = visible(text)
    cut = "\n" + _("… %(number)s more characters") % {"number": len(text) - MOST_CHARACTERS} if is_cut(text) else ""
    # The look's scripts are told to pass by: whatever stands here, they find nothing to do in it.
    return format_html(
        '<pre class="hub-text" dir="ltr" tabindex="0" translate="no" x-ignore hx-disable>{}{}</pre>',
        text[:MOST_CHARACTERS],
        cut,
    )


def json_block(text: str) -> SafeString:
    return block(pretty(text))


def pretty(text: str) -> str:
    """A JSON document, indented; one that cannot be read is as it is stored."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def is_cut(text: str) -> bool:
    """Whether `block` shows the beginning of it only."""
    return len(visible(text)) > MOST_CHARACTERS


def moment(when: datetime | None) -> str:
    """A moment in UTC, which a script shows in the viewer's own time zone."""
    if when is None:
        return NOTHING
    when = when.astimezone(UTC)
    return format_html('<time datetime="{}">{}</time>', when.isoformat(), f"{when:%Y-%m-%d %H:%M:%S} UTC")


def error(code: str | None) -> str:
    """An error code, and what it says to people."""
    if not code:
        return NOTHING
    words = in_words(code)
    return code if words == code else f"{code}: {words}"


def short_error(code: str | None) -> str:
    """The code alone, where there is little room; it says what it means when pointed at."""
    return format_html('<span title="{}">{}</span>', in_words(code), code) if code else NOTHING


def in_words(code: str) -> str:
    """`the endpoint answered 503`, in the viewer's language; a code that is not known is its own word."""
    if code.startswith(HTTP):
        return _("the endpoint answered %(status)s") % {"status": code.removeprefix(HTTP)}
    return _(MEANING[code]) if code in MEANING else code


def page(model: type[Model], pk: int) -> str:
    """The address of a row's page."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[pk])


def listing(model: type[Model], query: str) -> str:
    """The address of a list, narrowed by a query such as `event=5`."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") + f"?{query}"


def link(address: str, text: Any) -> SafeString:
    return format_html('<a href="{}">{}</a>', address, text)
