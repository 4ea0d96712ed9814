"""The names of tables and columns in the viewer's language.

Models are declared without translations, for the names in them are part of the migrations. What is shown is wrapped
here, once, when the hub starts; a test holds this list to what the models say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db.models import BaseConstraint, Model
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_noop as _

APPS = ("webhookhub", "events", "subscriptions", "sagas", "jobs", "deadletters", "api", "auditlog", "workflows")

NAMES = (
    _("0 as routed; each requeue adds one."),
    _("1 for the first attempt."),
    _("action"),
    _("active"),
    _("active saga id"),
    _("aggregate id"),
    _("An https address."),
    _("anomaly"),
    _("API"),
    _("API key"),
    _("API keys"),
    _("attempt"),
    _("attempt at"),
    _("attempt count"),
    _("attempt no"),
    _("attempts"),
    _("Attempts"),
    _("Attempts, the first included. Empty: the hub's default."),
    _("audit log"),
    _("Audit log"),
    _("audit log entry"),
    _("base delay"),
    _("by hand"),
    _("callback url"),
    _("compensation started at"),
    _("completed at"),
    _("correlation id"),
    _("correlation key"),
    _("created at"),
    _("created by"),
    _("current step"),
    _("custom headers"),
    _("dead letter"),
    _("dead letters"),
    _("Dead letters"),
    _("deadline"),
    _("definition version"),
    _("Delay after the first failure (hh:mm:ss); it doubles each time. Empty: the hub's default."),
    _("deliveries"),
    _("Deliveries"),
    _("delivery"),
    _("description"),
    _("details"),
    _("duration ms"),
    _("error code"),
    _("error message"),
    _("event"),
    _("event type"),
    _("Events"),
    _("events"),
    _("events per second"),
    _("expires at"),
    _("external id"),
    _("failed at"),
    _("final error code"),
    _("finished at"),
    _("generation"),
    _("heartbeat at"),
    _("host"),
    _("The key's limit. Empty: the hub's default."),
    _("Hub"),
    _("id"),
    _("ID"),
    _("key id"),
    _("kind"),
    _("last used at"),
    _("lease resets"),
    _("lease token"),
    _("lease until"),
    _("max retry limit"),
    _("name"),
    _("needs operator"),
    _("next attempt at"),
    _("object id"),
    _("object name"),
    _("object type"),
    _("payload"),
    _("payload snapshot"),
    _("pid"),
    _("previous secret"),
    _("previous secret until"),
    _("process"),
    _("processes"),
    _("response snippet"),
    _("response status"),
    _("retry after"),
    _("revoked at"),
    _("saga"),
    _("saga id"),
    _("saga type"),
    _("scopes"),
    _("secret"),
    _("secret sha256"),
    _("settled at"),
    _("signing scheme"),
    _("source"),
    _("spent until"),
    _("started at"),
    _("status"),
    _("steps"),
    _("subscription"),
    _("subscriptions"),
    _("Subscriptions"),
    _("Switched off, it gets no new deliveries; open ones wait."),
    _("The earliest moment the receiver asked for."),
    _("The endpoint has shown that it wants these events."),
    _("The producer that the key is bound to: it sends and reads only events of this source. Empty: no restriction."),
    _("This address is subscribed to this event type already."),
    _("uid"),
    _("updated at"),
    _("v1: a secret that both sides know. v1a: ed25519, the receiver needs the public key only."),
    _("verification at"),
    _("verification result"),
    _("verified"),
    _("version"),
    _("via"),
    _("What the key may do, separated by spaces."),
    _("when"),
    _("When the attempt was due."),
    _("who"),
    _("why"),
    _("worker id"),
    _("workflow"),
    _("workflows"),
    _("Workflows"),
)


def shown_models() -> Iterator[type[Model]]:
    """Those that the console has pages for."""
    from django.contrib import admin

    return (model for model in admin.site._registry if model._meta.app_label in APPS)


def found() -> set[str]:
    """What the models are called, and what their columns are, in the words of their declarations."""
    names = {str(apps.get_app_config(label).verbose_name) for label in APPS}
    for model in shown_models():
        names |= {str(model._meta.verbose_name), str(model._meta.verbose_name_plural)}
        names |= {str(field.verbose_name) for field in model._meta.concrete_fields}
        names |= {str(field.help_text) for field in model._meta.concrete_fields if field.help_text}
        names |= {str(constraint.violation_error_message) for constraint in _explained(model)}
    return names


def translate() -> None:
    """Give each name the viewer's language. The migrations read the declarations, not these."""
    for label in APPS:
        config = apps.get_app_config(label)
        config.verbose_name = gettext_lazy(str(config.verbose_name))
    for model in shown_models():
        meta = model._meta
        meta.verbose_name = gettext_lazy(str(meta.verbose_name))
        meta.verbose_name_plural = gettext_lazy(str(meta.verbose_name_plural))
        for field in meta.concrete_fields:
            field.verbose_name = gettext_lazy(str(field.verbose_name))
            if field.help_text:
                field.help_text = gettext_lazy(str(field.help_text))
        for constraint in _explained(model):
            constraint.violation_error_message = gettext_lazy(str(constraint.violation_error_message))


def _explained(model: type[Model]) -> list[Any]:
    """The constraints that say in words of their own what was wrong."""
    return [
        each
        for each in model._meta.constraints
        if each.violation_error_message != BaseConstraint.default_violation_error_message
    ]
