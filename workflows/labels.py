"""Facts and states in words, in the language of whoever looks."""

from __future__ import annotations

import json

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from . import words
from .badges import WORDS
from .models import Fact
from .state import Decision
from .state import Fact as Said

ROLES = {
    words.STARTED: _("started"),
    words.DONE: _("done"),
    words.FAILURE: _("failed"),
    words.UNDONE: _("compensated"),
    words.UNDO_FAILED: _("compensation failed"),
    words.FINISHED: _("completed"),
    words.CLOSED: _("closed"),
    words.RETRIED: _("retried"),
}
STATES = {
    words.WAITING: _("waiting"),
    words.RUNNING: _("running"),
    words.STEP_DONE: _("done"),
    words.STEP_FAILED: _("failed"),
    words.STEP_TIMED_OUT: _("timed out"),
    words.UNDOING: _("compensating"),
    words.STEP_UNDONE: _("compensated"),
    words.STEP_UNDO_FAILED: _("compensation failed"),
}
# Who said it, where it was nobody with a name.
ORIGINS = {
    words.EVENT: _("event"),
    words.VERB: _("service"),
    words.OPERATOR: _("operator"),
    words.HUB: _("hub"),
}


def role(name: str) -> str:
    return gettext(ROLES[name])


def state(name: str) -> str:
    return gettext(STATES[name])


def origin(name: str) -> str:
    return gettext(ORIGINS[name])


def fact(told: Fact) -> str:
    """What a fact says. Reasons and errors stay in the words in which they were given."""
    if told.role in words.DECIDED:
        decision = Decision.of(Said(told.role, told.step, told.occurred_at, told.origin, told.detail))
        what = decision.status if told.role == words.ENDED else words.COMPENSATING
        said = gettext("the hub decided: %(what)s") % {"what": WORDS[what]}
        return f"{said} ({decision.error})" if decision.error else said
    if told.role == words.EMITTED:
        return gettext("the hub published %(type)s") % {"type": told.detail}
    if told.role == words.RETRIED:
        ids = ", ".join(map(str, json.loads(told.detail or "{}").get("deliveries", [])))
        return gettext("delivered again: delivery %(numbers)s") % {"numbers": ids} if ids else role(words.RETRIED)
    said = role(told.role)
    return f"{said}: {told.detail}" if told.detail and told.detail != told.reason else said
