"""The states of a workflow, in colours and in the viewer's language; pointed at, as the API spells them."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from .words import COMPENSATED, COMPENSATING, COMPLETED, FAILED, IN_PROGRESS

TONES = {
    IN_PROGRESS: "busy",
    COMPLETED: "good",
    COMPENSATING: "warn",
    COMPENSATED: "warn",
    FAILED: "bad",
}
WORDS = {
    IN_PROGRESS: gettext_lazy("under way"),
    COMPLETED: gettext_lazy("completed"),
    COMPENSATING: gettext_lazy("compensating"),
    COMPENSATED: gettext_lazy("compensated"),
    FAILED: gettext_lazy("failed"),
}


def badge(status: str) -> SafeString:
    return format_html('<span class="hub-badge hub-{}" title="{}">{}</span>', TONES[status], status, WORDS[status])
