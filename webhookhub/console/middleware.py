"""Middleware of the console: language, time zone and Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from webhookhub.db.denied import log_denied
from webhookhub.db.errors import Kind, kind_of

from .error_pages import unavailable

GetResponse = Callable[[HttpRequest], HttpResponseBase]

API = "/api/"
# The browser's time zone. console.js sets the cookie; forms with times send a field of the same name.
COOKIE = "hub_zone"

CSP_HEADER = "Content-Security-Policy"
POLICY = "; ".join(
    [
        "default-src 'none'",
        # Alpine, which django-unfold uses, evaluates the expressions in its attributes.
        "script-src 'self' 'unsafe-eval'",
        # django-unfold writes its colours into a style element.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)


class ContentSecurityPolicyMiddleware:
    """Sets the header unless the view has set its own."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        response.headers.setdefault(CSP_HEADER, POLICY)
        return response


class DeniedMiddleware:
    """A page and one line of the log, without a traceback, for a statement that the database user may not run."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        if kind_of(exception) is not Kind.DENIED:
            return None
        log_denied(exception)
        reason = _("The hub's database user is not permitted to do this. The hub's log names the missing privilege.")
        return unavailable(request, reason)


class LanguageMiddleware(LocaleMiddleware):
    """The API always answers in LANGUAGE_CODE, because programs compare its messages."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path_info.startswith(API):
            translation.activate(settings.LANGUAGE_CODE)
        else:
            super().process_request(request)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if request.path_info.startswith(API) else super().process_response(request, response)


class TimezoneMiddleware:
    """Activates the time zone of the submitted form, else of the cookie, else UTC. The API uses UTC."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(API):
            return self._get_response(request)
        form = request.POST if request.method == "POST" else request.GET
        with timezone.override(zone_or_utc(form.get(COOKIE) or request.COOKIES.get(COOKIE, ""))):
            return self._get_response(request)


def zone_or_utc(name: str) -> tzinfo:
    """Returns UTC if the name, which the browser sent, is not a known time zone."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):  # unknown name, invalid path, directory
        return UTC
