"""Django's permissions in the viewer's language. Their names are stored, in English."""

from __future__ import annotations

import re

from django.utils.translation import gettext, override
from django.utils.translation import gettext_noop as _

STANDARD = re.compile(r"Can (add|change|delete|view) (.+)")
VERBS = {
    "add": _("Can add %(things)s"),
    "change": _("Can change %(things)s"),
    "delete": _("Can delete %(things)s"),
    "view": _("Can view %(things)s"),
}
# Those of the hub's own, and the tables and apps that have no page to be named on; a test holds this to what there is.
NAMES = (
    _("Can close a workflow"),
    _("Can have a subscription's endpoint verified"),
    _("Can mark a workflow's step as compensated"),
    _("Can requeue a dead letter"),
    _("Can requeue more than one dead letter at a time"),
    _("Can retry the delivery of a step of a workflow"),
    _("Can revoke an API key"),
    _("Can see and rotate a subscription's signing secret"),
)
PLACES = (
    _("Stats"),
    _("Sessions"),
    _("period"),
    _("requeue"),
    _("routing inbox"),
    _("session"),
    _("subscription version"),
    _("counter"),
    _("tracked type"),
    _("used definition"),
    _("workflow fact"),
    _("workflow inbox"),
    _("workflow touched"),
)


def told(row: object) -> str:
    """What a permission, a group or a user is called in the trail, which speaks one language."""
    with override("en"):
        return str(row)


def in_words(name: str) -> str:
    """`Dead letters | dead letter | Can view dead letter`, or its last part alone."""
    *places, name = name.split(" | ")
    return " | ".join([*map(gettext, places), _of(name)])


def _of(name: str) -> str:
    if standard := STANDARD.fullmatch(name):
        return gettext(VERBS[standard[1]]) % {"things": gettext(standard[2])}
    return gettext(name)
