"""Facts, steps and statuses in the user's language."""

from __future__ import annotations

import json

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from sagas.models import Saga

from . import state as s
from .models import Fact

# Status → CSS class and label.
STATUSES = {
    s.IN_PROGRESS: ("busy", _("under way")),
    s.COMPLETED: ("good", _("completed")),
    s.COMPENSATING: ("warn", _("compensating")),
    s.COMPENSATED: ("warn", _("compensated")),
    s.FAILED: ("bad", _("failed")),
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
# States of a step.
STATES = {
    **{role: ROLES[role] for role in s.STEP_ROLES},
    s.WAITING: _("waiting"),
    s.RUNNING: _("running"),
    s.TIMED_OUT: _("timed out"),
    s.UNDOING: _("compensating"),
}
ORIGINS = {s.EVENT: _("event"), s.VERB: _("service"), s.OPERATOR: _("operator"), s.HUB: _("hub")}


def badge(status: str) -> SafeString:
    colour, label = STATUSES[status]
    return format_html('<span class="hub-badge hub-{}" title="{}">{}</span>', colour, status, label)


def fact(row: Fact) -> str:
    """What a fact says. Reasons and errors are not translated."""
    if row.role in s.DECIDED:
        decision = s.Decision.read(row.role, row.step, row.detail, row.occurred_at)
        _colour, status = STATUSES[decision.status if row.role == s.ENDED else s.COMPENSATING]
        text = gettext("the hub decided: %(what)s") % {"what": status}
        return f"{text} ({decision.error})" if decision.error else text
    if row.role == s.EMITTED:
        return gettext("the hub published %(type)s") % {"type": row.detail}
    label = str(ROLES[row.role])
    if row.role == s.RETRIED:
        ids = ", ".join(map(str, json.loads(row.detail or "{}").get("deliveries", [])))
        return gettext("delivered again: delivery %(numbers)s") % {"numbers": ids} if ids else label
    return f"{label}: {row.detail}" if row.detail and row.detail != row.reason else label


def delivery(saga: Saga) -> str:
    """`inventory.reserved → payment service, PendingRetry, 5 attempts, http_503`"""
    count = saga.attempt_count
    attempts = ngettext("%(number)s attempt", "%(number)s attempts", count) % {"number": count}
    parts = [f"{saga.event.event_type} → {receiver(saga)}", saga.status, attempts, saga.final_error_code]
    return ", ".join(part for part in parts if part)


def receiver(saga: Saga) -> str:
    """The subscription's description, or its URL without secrets."""
    return str(saga.subscription.description or saga.subscription.shown_url)
