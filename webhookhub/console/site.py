"""The admin site: django-unfold's, with the overview as its index and the hub's own views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
else:
    from unfold.sites import UnfoldAdminSite as AdminSite


class ConsoleSite(AdminSite):
    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        from . import views  # the views import this site

        return views.overview_page(request)

    def extra_urls(self) -> list[URLPattern]:
        from webhookhub.accounts.views import Welcome

        from . import backfill, views

        return [
            path("overview/", self.admin_view(views.overview_fragment), name="overview"),
            path("find/", self.admin_view(views.find_page), name="find"),
            path("events/event/<int:number>/payload/", self.admin_view(views.event_payload), name="event_payload"),
            path("events/event/<int:number>/body/", self.admin_view(views.event_body), name="event_body"),
            path(
                "subscriptions/subscription/<int:number>/backfill/",
                self.admin_view(backfill.view),
                name="subscription_backfill",
            ),
            # Without admin_view: the user cannot log in yet.
            path("welcome/<uidb64>/<token>/", Welcome.as_view(), name="welcome"),
        ]

    def search(self, request: HttpRequest, extra_context: object = None) -> HttpResponse:
        """Disables django-unfold's search for models."""
        raise Http404
