"""The log-in page, single sign-on, and the page behind the link of `create_staff --link`, where a new user sets the
password."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.views import LoginView, PasswordResetConfirmView
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse, reverse_lazy
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from webhookhub.auditlog.actions import CONSOLE
from webhookhub.auditlog.context import Actor, acting_as
from webhookhub.conf import hub

from . import log_in, oidc, second_factor, sso, throttle
from .forms import LogInForm
from .second_factor_views import begin_verification

COOKIE = "hub_sso"
COOKIE_AGE = timedelta(minutes=10)
FAILED = _("The log-in at the provider failed. Try again; if it fails again, ask an administrator.")


class LogIn(LoginView):
    form_class = LogInForm
    template_name = "admin/login.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST" and not hub().password_log_in:
            raise PermissionDenied
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        context["with_password"] = hub().password_log_in
        if hub().oidc_issuer:
            target = context.get(self.redirect_field_name) or ""
            context["sso"] = hub().oidc_name
            context["sso_url"] = f"{reverse('admin:sso')}?{urlencode({'next': target})}"
        return context

    def form_valid(self, form: Any) -> HttpResponse:
        user, target = form.get_user(), self.get_success_url()
        if second_factor.has_factor(user):
            return begin_verification(self.request, user, target)
        return log_in.begin_session(self.request, user, log_in.PASSWORD, HttpResponseRedirect(target))

    def form_invalid(self, form: Any) -> HttpResponse:
        response = super().form_invalid(form)
        if form.retry_after is not None:
            response.status_code = 429
            response["Retry-After"] = str(form.retry_after)
        return response


@never_cache
def sso_begin(request: HttpRequest) -> HttpResponse:
    """Sends the browser to the provider. What must be remembered is in a signed cookie: visitors fill no table."""
    if not hub().oidc_issuer:
        raise Http404
    try:
        address, flow = oidc.begin(_redirect_uri())
    except oidc.ProviderError as error:
        return _sso_failed(request, "", "provider", error)
    target = request.GET.get("next", "")
    response = HttpResponseRedirect(address)
    response.set_cookie(
        COOKIE,
        signing.dumps({"flow": asdict(flow), "next": target}, salt=COOKIE),
        max_age=COOKIE_AGE,
        path=reverse("admin:sso_callback"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",  # the provider's redirect is a navigation of the whole page
    )
    return response


@never_cache
def sso_callback(request: HttpRequest) -> HttpResponse:
    if not hub().oidc_issuer:
        raise Http404
    try:
        remembered = signing.loads(request.COOKIES.get(COOKIE, ""), salt=COOKIE, max_age=COOKIE_AGE)
        flow = oidc.Flow(**remembered["flow"])
    except signing.BadSignature:
        return _sso_failed(request, "", "state", "there is no log-in in progress in this browser")
    if not secrets.compare_digest(request.GET.get("state", "").encode(), flow.state.encode()):
        return _sso_failed(request, "", "state", "the state is not the one of this browser")
    if "code" not in request.GET:
        return _sso_failed(request, "", "provider", f"refused: {request.GET.get('error', '')[:50]}")
    if throttle.take(throttle.ADDRESS, f"sso {throttle.network_of(request.META.get('REMOTE_ADDR', ''))}"):
        return _sso_failed(request, "", log_in.TOO_MANY, "too many log-ins from this address")
    try:
        user = sso.user_for(oidc.claims_of(request.GET["code"], flow, _redirect_uri()))
    except oidc.ProviderError as error:
        return _sso_failed(request, "", "provider", error)
    except sso.Refused as refusal:
        log_in.note_failure(request, refusal.name, refusal.user_id, refusal.cause)
        return _back_to_log_in(request, refusal.message)
    target = remembered["next"]
    if not url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure()):
        target = reverse("admin:index")
    response = HttpResponseRedirect(target)
    response.delete_cookie(COOKIE, path=reverse("admin:sso_callback"))
    return log_in.begin_session(request, user, log_in.SSO, response)


def _sso_failed(request: HttpRequest, name: str, cause: str, error: object) -> HttpResponse:
    log_in.note_failure(request, name, None, f"sso_{cause}", error=str(error))
    return _back_to_log_in(request, FAILED)


def _back_to_log_in(request: HttpRequest, message: Any) -> HttpResponse:
    messages.error(request, message)
    response = HttpResponseRedirect(reverse("admin:login"))
    response.delete_cookie(COOKIE, path=reverse("admin:sso_callback"))
    return response


def _redirect_uri() -> str:
    return hub().public_url + reverse("admin:sso_callback")


class Welcome(PasswordResetConfirmView):
    template_name = "console/welcome.html"
    success_url = reverse_lazy("admin:login")
    title = _("Set your password")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**admin.site.each_context(self.request), **super().get_context_data(**kwargs)}

    def form_valid(self, form: Any) -> HttpResponse:
        actor = Actor(f"{form.user.get_username()} (link)", CONSOLE)
        with acting_as(lambda: actor):
            return super().form_valid(form)
