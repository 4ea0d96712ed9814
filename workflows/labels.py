"""Facts, steps and statuses in the user's language."""

from __future__ import annotations

import json
import re

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
# The hub's own sentences in `error_message` and `anomaly`, which are stored in English and returned by the API.
KEY = r"(?P<key>[\w.-]+)"
SENTENCES = [
    (re.compile(rf"step {KEY} failed"), _("step %(key)s failed")),
    (re.compile(rf"step {KEY} has timed out"), _("step %(key)s has timed out")),
    (
        re.compile(rf"compensation of step {KEY} failed(?P<reason>: .*)?"),
        _("compensation of step %(key)s failed%(reason)s"),
    ),
    (re.compile(r"compensation is overdue: (?P<keys>[\w., -]+)"), _("compensation is overdue: %(keys)s")),
    (
        re.compile(r"its start was never seen; no compensation was requested"),
        _("its start was never seen; no compensation was requested"),
    ),
    (re.compile(r"the run failed"), _("the run failed")),
    (re.compile(r"the run has timed out"), _("the run has timed out")),
    (re.compile(r"closed by an operator"), _("closed by an operator")),
    (re.compile(rf"run {state.UNDONE} before anything had failed"), _("run compensated before anything had failed")),
    (re.compile(rf"{KEY} (?P<role>\w+) after the end"), _("%(key)s %(role)s after the end")),
]
ORIGINS = {state.EVENT: _("event"), state.VERB: _("service"), state.OPERATOR: _("operator"), state.HUB: _("hub")}


def badge(status: str) -> SafeString:
    colour, label = STATUSES[status]
    return format_html('<span class="hub-badge hub-{}" title="{}">{}</span>', colour, status, label)


def sentences(text: str) -> str:
    """An error or an anomaly of a run in the user's language; the words of services and operators as they are."""
    return _sentence(text) or "; ".join(_sentence(part) or part for part in text.split("; "))


def _sentence(text: str) -> str | None:
    for pattern, translation in SENTENCES:
        if match := pattern.fullmatch(text):
            values = {name: value or "" for name, value in match.groupdict().items()}
            return str(translation) % (values | {"role": ROLES.get(values.get("role", ""), "")})
    return None


def fact(row: Fact) -> str:
    """What a fact says. Reasons are not translated."""
    if row.role in state.DECIDED:
        decision = state.Decision.read(row.role, row.step, row.detail, row.occurred_at)
        _colour, status = STATUSES[decision.status if row.role == state.ENDED else state.COMPENSATING]
        text = gettext("the hub decided: %(what)s") % {"what": status}
        return f"{text} ({sentences(decision.error)})" if decision.error else text
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
