"""The settings of django-unfold: navigation, styles and colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext_lazy as _


def _file(name: str) -> Callable[[HttpRequest], str]:
    return lambda request: static(f"console/{name}")


def _may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: request.user.has_perm(permission)


def _item(title: Any, icon: str, model: str) -> dict[str, Any]:
    """A link to the list of a model such as `sagas.saga`, for users who may view it."""
    app, name = model.split(".")
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{app}_{name}_changelist"),
        "permission": _may(f"{app}.view_{name}"),
    }


def _is_workflow(request: HttpRequest) -> bool:
    """Stats and definitions have their own items, although their URLs start with the list's."""
    others = (reverse("admin:workflows_instance_stats"), reverse("admin:workflows_instance_definitions"))
    runs = reverse("admin:workflows_instance_changelist")
    return request.path.startswith(runs) and not request.path.startswith(others)


NAVIGATION: list[dict[str, Any]] = [
    {
        "items": [
            {"title": _("Overview"), "icon": "monitoring", "link": reverse_lazy("admin:index")},
        ],
    },
    {
        "title": _("Deliveries"),
        "items": [
            _item(_("Deliveries"), "local_shipping", "sagas.saga"),
            _item(_("Dead letters"), "report", "deadletters.deadletter"),
            _item(_("Requests"), "touch_app", "sagas.deliveryrequest"),
            _item(_("Events"), "bolt", "events.event"),
            _item(_("Attempts"), "sync_alt", "jobs.job"),
        ],
    },
    {
        "title": _("Workflows"),
        "items": [
            {**_item(_("Workflows"), "account_tree", "workflows.instance"), "active": _is_workflow},
            {
                "title": _("Workflow stats"),
                "icon": "query_stats",
                "link": reverse_lazy("admin:workflows_instance_stats"),
                "permission": _may("workflows.view_instance"),
            },
            {
                "title": _("Definitions"),
                "icon": "schema",
                "link": reverse_lazy("admin:workflows_instance_definitions"),
                "permission": _may("workflows.view_instance"),
            },
        ],
    },
    {
        "title": _("Configuration"),
        "items": [
            _item(_("Customers"), "apartment", "subscriptions.customer"),
            _item(_("Endpoints"), "lan", "subscriptions.endpoint"),
            _item(_("Subscriptions"), "webhook", "subscriptions.subscription"),
            _item(_("Event types"), "category", "events.eventtype"),
            _item(_("API keys"), "key", "api.apikey"),
        ],
    },
    {
        "title": _("Operation"),
        "items": [
            _item(_("Processes"), "memory", "webhookhub.process"),
            _item(_("Audit log"), "history", "auditlog.entry"),
            _item(_("Users"), "person", "auth.user"),
            _item(_("Groups"), "group", "auth.group"),
        ],
    },
]

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "WebhookHub",
    "SITE_HEADER": "WebhookHub",
    "SITE_SUBHEADER": _("Webhook deliveries"),
    "SITE_SYMBOL": "webhook",
    "SITE_URL": None,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _file("icon.svg")}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_LANGUAGES": True,
    "STYLES": [_file("console.css")],
    "SCRIPTS": [_file("console.js")],
    "BORDER_RADIUS": "8px",
    "COLORS": {
        "primary": {
            "50": "oklch(97% .015 245)",
            "100": "oklch(94% .03 245)",
            "200": "oklch(88% .06 245)",
            "300": "oklch(80% .1 246)",
            "400": "oklch(75% .13 247)",
            "500": "oklch(72% .14 248)",
            "600": "oklch(48% .16 252)",
            "700": "oklch(42% .15 254)",
            "800": "oklch(36% .12 255)",
            "900": "oklch(31% .09 256)",
            "950": "oklch(24% .07 257)",
        },
        # Enough contrast for secondary text.
        "font": {
            "subtle-light": "var(--color-base-600)",
            "subtle-dark": "var(--color-base-300)",
            "default-light": "var(--color-base-700)",
            "default-dark": "var(--color-base-200)",
            "important-light": "var(--color-base-900)",
            "important-dark": "var(--color-base-100)",
        },
    },
    "SIDEBAR": {"navigation": NAVIGATION},
    "ACCOUNT": {
        "navigation": [
            {"title": _("Change password"), "link": reverse_lazy("admin:password_change")},
            {"title": _("Second factor"), "link": reverse_lazy("admin:second_factor")},
        ]
    },
}

# Texts of django-unfold on the pages, which it does not translate itself. Marked here for makemessages.
TEXTS = (
    _("After you've created a user, you’ll be able to edit more user options."),
    _("Dark"),
    _("Date"),
    _("False"),
    _("Filters"),
    _("Go back"),
    _("Light"),
    _(
        "Raw passwords are not stored, so there is no way to see this user’s password, but you can change the password "
        'using <a href="{}" class="text-primary-600 dark:text-primary-500">this form</a>.'
    ),
    _("Run"),
    _("Select action"),
    _("Select action to run"),
    _("Select all rows"),
    _("Select record"),
    _("Select value"),
    _("System"),
    _("Time"),
    _("Toggle password visibility"),
    _("True"),
    _("Type to search"),
    _("Welcome"),
    _("Welcome back to"),
    _("You have been successfully logged out from the administration"),
)
