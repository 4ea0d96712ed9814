"""The console itself: Django's admin with the look of django-unfold and the hub's own pages."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from webhookhub.console.base import AdminSite


class ConsoleSite(AdminSite):
    # The language, the theme and the password are in the menu beneath the user's name.
    enable_nav_sidebar = True

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        # Not at the top: this is the site that the views' own pages are made with.
        from .views import overview_page

        return overview_page(request)

    def extra_urls(self) -> list[URLPattern]:
        from webhookhub.accounts.views import Welcome

        from . import backfill, downloads
        from .views import find_page, overview_fragment

        return [
            path("overview/", self.admin_view(overview_fragment), name="overview"),
            path("find/", self.admin_view(find_page), name="find"),
            path("events/event/<int:number>/payload/", self.admin_view(downloads.payload), name="event_payload"),
            path("events/event/<int:number>/body/", self.admin_view(downloads.body), name="event_body"),
            path(
                "subscriptions/subscription/<int:number>/backfill/",
                self.admin_view(backfill.view),
                name="subscription_backfill",
            ),
            # For those who cannot log in yet.
            path("welcome/<uidb64>/<token>/", Welcome.as_view(), name="welcome"),
        ]

    def search(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        """The look's search over names of tables; the console has one of its own, over what is in them."""
        raise Http404
