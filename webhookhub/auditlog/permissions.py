"""Names of Django's permissions in the viewer's language."""

from __future__ import annotations

from django.apps import apps
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

VERBS = {
    "add": _("Can add %(things)s"),
    "change": _("Can change %(things)s"),
    "delete": _("Can delete %(things)s"),
    "view": _("Can view %(things)s"),
}
# To be translated: the hub's own permissions, and the names of models and apps that appear on no other page.
NAMES = (
    _("Can abandon deliveries"),
    _("Can close a workflow"),
    _("Can disable and enable a customer"),
    _("Can have a subscription's endpoint verified"),
    _("Can mark a workflow's step as compensated"),
    _("Can requeue a dead letter"),
    _("Can requeue more than one dead letter at a time"),
    _("Can retry the delivery of a step of a workflow"),
    _("Can revoke an API key"),
    _("Can see and rotate a subscription's signing secret"),
    _("Can send ended deliveries again"),
    _("Can vouch for an endpoint that cannot be verified"),
    _("Can set and remove a subscription's credentials at its endpoint"),
    _("Can send now or abandon more than one delivery at a time"),
    _("Can send waiting deliveries now"),
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
    _("workflow period"),
    _("workflow touched"),
)


def describe(permission: str) -> str:
    """`events.view_event` as `Events | event | Can view event`; an unknown permission is returned unchanged."""
    app_label, _dot, codename = permission.partition(".")
    action, _underscore, model_name = codename.partition("_")
    models = apps.get_app_config(app_label).get_models() if app_label in apps.app_configs else ()
    for meta in (model._meta for model in models):
        model_text = gettext(str(meta.verbose_name))
        place = f"{gettext(str(meta.app_config.verbose_name))} | {model_text}"
        if codename in (own := dict(meta.permissions)):
            return f"{place} | {gettext(own[codename])}"
        if model_name == meta.model_name and action in VERBS:
            return f"{place} | {gettext(VERBS[action]) % {'things': model_text}}"
    return permission
