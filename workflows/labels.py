"""Facts, steps and statuses in the user's language."""

from __future__ import annotations

import json

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from sagas.models import Saga

from . import state
from .models import Fact

# Status → CSS class and label.
STATUSES = {
    state.IN_PROGRESS: ("busy", _("under way")),
    state.COMPLETED: ("good", _("completed")),
    state.COMPENSATING: ("warn", _("compensating")),
    state.COMPENSATED: ("warn", _("compensated")),
    state.FAILED: ("bad", _("failed")),
}
ROLES = {
    state.STARTED: _("started"),
    state.DONE: _("done"),
    state.FAILURE: _("failed"),
    state.UNDONE: _("compensated"),
    state.UNDO_FAILED: _("compensation failed"),
    state.FINISHED: _("completed"),
    state.CLOSED: _("closed"),
    state.RETRIED: _("retried"),
}
# States of a step.
STATES = {
    **{role: ROLES[role] for role in state.STEP_ROLES},
    state.WAITING: _("waiting"),
    state.RUNNING: _("running"),
    state.TIMED_OUT: _("timed out"),
    state.UNDOING: _("compensating"),
}
ORIGINS = {state.EVENT: _("event"), state.VERB: _("service"), state.OPERATOR: _("operator"), state.HUB: _("hub")}


def badge(status: str) -> SafeString:
    colour, label = STATUSES[status]
    return format_html('<span class="hub-badge hub-{}" title="{}">{}</span>', colour, status, label)


def fact(row: Fact) -> str:
    """What a fact says. Reasons and errors are not translated."""
    if row.role in state.DECIDED:
        decision = state.Decision.read(row.role, row.step, row.detail, row.occurred_at)
        _colour, status = STATUSES[decision.status if row.role == state.ENDED else state.COMPENSATING]
        text = gettext("the hub decided: %(what)s") % {"what": status}
        return f"{text} ({decision.error})" if decision.error else text
    if row.role == state.EMITTED:
        return gettext("the hub published %(type)s") % {"type": row.detail}
    label = str(ROLES[row.role])
    if row.role == state.RETRIED:
        ids = ", ".join(map(str, json.loads(row.detail or "{}").get("deliveries", [])))
        return gettext("delivered again: delivery %(numbers)s") % {"numbers": ids} if ids else label
    return f"{label}: {row.detail}" if row.detail and row.detail != row.reason else label


def delivery(saga: Saga) -> str:
    """`inventory.reserved → payment service, PendingRetry, 5 attempts, http_503`"""
    count = saga.attempt_count
    attempts = ngettext("%(number)s attempt", "%(number)s attempts", count) % {"number": count}
    parts = [f"{saga.event.event_type} → {endpoint(saga)}", saga.status, attempts, saga.final_error_code]
    return ", ".join(part for part in parts if part)


def endpoint(saga: Saga) -> str:
    """The subscription's description, or its URL without secrets."""
    return str(saga.subscription.description or saga.subscription.shown_url)
