"""The admin site: django-unfold's, with the overview as its index and the hub's own views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from webhookhub.accounts.views import Welcome

from . import backfill, filter_preview, views

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
else:
    from unfold.sites import UnfoldAdminSite as AdminSite


class ConsoleSite(AdminSite):
    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        return views.overview_page(request)

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Replaces django-unfold's search for models."""
        return views.search_page(request)

    def extra_urls(self) -> list[URLPattern]:
        subscription = "subscriptions/subscription/<int:pk>"
        return [
            path("overview/", self.admin_view(views.overview_fragment), name="overview"),
            path("endpoints/", self.admin_view(views.endpoints_page), name="endpoints"),
            path("events/event/<int:pk>/payload/", self.admin_view(views.event_payload), name="event_payload"),
            path("events/event/<int:pk>/body/", self.admin_view(views.event_body), name="event_body"),
            path(
                "subscriptions/subscription/preview/",
                self.admin_view(filter_preview.view),
                name="subscription_preview",
            ),
            path(f"{subscription}/backfill/", self.admin_view(backfill.view), name="subscription_backfill"),
            # Without admin_view: the user cannot log in yet.
            path("welcome/<uidb64>/<token>/", Welcome.as_view(), name="welcome"),
        ]
