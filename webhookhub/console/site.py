"""The admin site: django-unfold's, with the overview as its index and the hub's own views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from webhookhub.accounts.views import LogIn, Welcome

from . import backfill, views

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
else:
    from unfold.sites import UnfoldAdminSite as AdminSite


def log_in_page(site: AdminSite, request: HttpRequest) -> HttpResponseBase:
    """Django's, with the hub's own view."""
    if request.method == "GET" and site.has_permission(request):
        return HttpResponseRedirect(reverse("admin:index"))
    context: dict[str, Any] = {**site.each_context(request), "title": _("Log in"), "app_path": request.get_full_path()}
    if REDIRECT_FIELD_NAME not in request.GET and REDIRECT_FIELD_NAME not in request.POST:
        context[REDIRECT_FIELD_NAME] = reverse("admin:index")
    return LogIn.as_view(extra_context=context)(request)


class ConsoleSite(AdminSite):
    @method_decorator(never_cache)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return log_in_page(self, request)

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
            path(f"{subscription}/backfill/", self.admin_view(backfill.view), name="subscription_backfill"),
            # Without admin_view: the user cannot log in yet.
            path("welcome/<uidb64>/<token>/", Welcome.as_view(), name="welcome"),
        ]
