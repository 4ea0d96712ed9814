"""The admin site: django-unfold's, with the overview as its index and the hub's own views."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from webhookhub.accounts import second_factor, second_factor_views
from webhookhub.accounts.views import LogIn, Welcome, sso_begin, sso_callback

from . import backfill, filter_preview, views

WITHOUT_SECOND_FACTOR = {"second_factor", "second_factor_app", "second_factor_key", "logout"}

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

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Every page but these sends a user without the required second factor to its set-up."""
        inner = super().admin_view(view, cacheable)

        @wraps(view)
        def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            name = request.resolver_match.url_name if request.resolver_match else ""
            if second_factor.is_missing(request) and name not in WITHOUT_SECOND_FACTOR:
                return HttpResponseRedirect(reverse("admin:second_factor"))
            return inner(request, *args, **kwargs)

        return wrapper

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
            path("second-factor/", self.admin_view(second_factor_views.factors_page), name="second_factor"),
            path("second-factor/app/", self.admin_view(second_factor_views.app_page), name="second_factor_app"),
            path("second-factor/key/", self.admin_view(second_factor_views.key_page), name="second_factor_key"),
            path("second-factor/codes/", self.admin_view(second_factor_views.codes_view), name="second_factor_codes"),
            path(
                "second-factor/<int:pk>/remove/",
                self.admin_view(second_factor_views.remove_view),
                name="second_factor_remove",
            ),
            # Without admin_view: the user is not logged in yet.
            path("verify/", second_factor_views.verify_page, name="verify"),
            path("sso/", sso_begin, name="sso"),
            path("sso/callback/", sso_callback, name="sso_callback"),
            path("welcome/<uidb64>/<token>/", Welcome.as_view(), name="welcome"),
        ]
