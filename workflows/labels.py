"""Facts, steps and statuses in the user's language."""

from __future__ import annotations

import json

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext_noop as _

from . import state as s
from .models import Fact

# Status → CSS class and label.
STATUSES = {
    s.IN_PROGRESS: ("busy", gettext_lazy("under way")),
    s.COMPLETED: ("good", gettext_lazy("completed")),
    s.COMPENSATING: ("warn", gettext_lazy("compensating")),
    s.COMPENSATED: ("warn", gettext_lazy("compensated")),
    s.FAILED: ("bad", gettext_lazy("failed")),
}
ROLES = {
    s.STARTED: _("started"),
    s.DONE: _("done"),
    s.FAILURE: _("failed"),
    s.UNDONE: _("compensated"),
    s.UNDO_FAILED: _("compensation failed"),
    s.FINISHED: _("completed"),
    s.CLOSED: _("closed"),
    s.RETRIED: _("retried"),
}
STATES = {
    s.WAITING: _("waiting"),
    s.RUNNING: _("running"),
    s.STEP_DONE: _("done"),
    s.STEP_FAILED: _("failed"),
    s.STEP_TIMED_OUT: _("timed out"),
    s.UNDOING: _("compensating"),
    s.STEP_UNDONE: _("compensated"),
    s.STEP_UNDO_FAILED: _("compensation failed"),
}
ORIGINS = {s.EVENT: _("event"), s.VERB: _("service"), s.OPERATOR: _("operator"), s.HUB: _("hub")}


def badge(status: str) -> SafeString:
    tone, label = STATUSES[status]
    return format_html('<span class="hub-badge hub-{}" title="{}">{}</span>', tone, status, label)


def role(name: str) -> str:
    return gettext(ROLES[name])


def state(name: str) -> str:
    return gettext(STATES[name])


def origin(name: str) -> str:
    return gettext(ORIGINS[name])


def fact(row: Fact) -> str:
    """What a fact says. Reasons and errors are not translated."""
    if row.role in s.DECIDED:
        decision = s.Decision.of(s.Fact(row.role, row.step, row.occurred_at, row.origin, row.detail))
        _tone, status = STATUSES[decision.status if row.role == s.ENDED else s.COMPENSATING]
        text = gettext("the hub decided: %(what)s") % {"what": status}
        return f"{text} ({decision.error})" if decision.error else text
    if row.role == s.EMITTED:
        return gettext("the hub published %(type)s") % {"type": row.detail}
    if row.role == s.RETRIED:
        ids = ", ".join(map(str, json.loads(row.detail or "{}").get("deliveries", [])))
        return gettext("delivered again: delivery %(numbers)s") % {"numbers": ids} if ids else role(s.RETRIED)
    text = role(row.role)
    return f"{text}: {row.detail}" if row.detail and row.detail != row.reason else text
