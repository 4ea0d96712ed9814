"""The console's look: django-unfold's settings. Everything that it shows is served from the hub's own static files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _


def _file(name: str) -> Callable[[HttpRequest], str]:
    return lambda request: static(f"console/{name}")


def _may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: request.user.has_perm(permission)


def _item(title: Any, icon: str, model: str) -> dict[str, Any]:
    """A list of rows, for those who may see it. `model` is as in the permissions: `sagas.saga`."""
    app, name = model.split(".")
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{app}_{name}_changelist"),
        "permission": _may(f"{app}.view_{name}"),
    }


def _is_overview(request: HttpRequest) -> bool:
    return request.path == str(reverse_lazy("admin:index"))


def _is_workflow(request: HttpRequest) -> bool:
    """The definitions stand below the list by their address, and beside it in the navigation."""
    definitions = str(reverse_lazy("admin:workflows_instance_definitions"))
    listing = str(reverse_lazy("admin:workflows_instance_changelist"))
    return request.path.startswith(listing) and not request.path.startswith(definitions)


NAVIGATION: list[dict[str, Any]] = [
    {
        "items": [
            {
                "title": _("Overview"),
                "icon": "monitoring",
                "link": reverse_lazy("admin:index"),
                "active": _is_overview,
            },
        ],
    },
    {
        "title": _("Deliveries"),
        "items": [
            _item(_("Deliveries"), "local_shipping", "sagas.saga"),
            _item(_("Dead letters"), "report", "deadletters.deadletter"),
            _item(_("Events"), "bolt", "events.event"),
            _item(_("Attempts"), "sync_alt", "jobs.job"),
        ],
    },
    {
        "title": _("Workflows"),
        "items": [
            {**_item(_("Workflows"), "account_tree", "workflows.instance"), "active": _is_workflow},
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
            _item(_("Subscriptions"), "webhook", "subscriptions.subscription"),
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
    "SHOW_BACK_BUTTON": False,
    "SHOW_LANGUAGES": True,
    "STYLES": [_file("console.css"), _file("forms.css")],
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
        # Quiet text is still read: dark enough on light ground, light enough on dark.
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
}
