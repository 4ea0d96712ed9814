"""The states of deliveries and attempts, in colours and in the viewer's language."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

TONES = {
    "Pending": "busy",
    "InProgress": "busy",
    "Leased": "busy",
    "PendingRetry": "warn",
    "Completed": "good",
    "DeadLettered": "bad",
    "Failed": "bad",
}
WORDS = {
    "Pending": gettext_noop("waiting"),
    "InProgress": gettext_noop("under way"),
    "Leased": gettext_noop("being sent"),
    "PendingRetry": gettext_noop("to be tried again"),
    "Completed": gettext_noop("delivered"),
    "DeadLettered": gettext_noop("dead letter"),
    "Failed": gettext_noop("failed"),
}


def in_words(status: str) -> str:
    return _(WORDS[status]) if status in WORDS else status


def badge(status: str) -> SafeString:
    words = in_words(status)
    return format_html('<span class="hub-badge hub-{}" title="{}">{}</span>', TONES.get(status, "plain"), status, words)
