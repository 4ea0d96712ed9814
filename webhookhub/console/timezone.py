"""The viewer's time zone: a script tells it in a cookie, so that times are read as they are shown.

Times that the pages show are put into the zone by the same script. Whoever has no script sees and types UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.functional import lazy

from .language import API

# The cookie, and the field in which a form with times sends the zone that it was shown in.
COOKIE = "hub_zone"
LONGEST_NAME = 64


class ViewerZone:
    """What is typed and shown on a page is so in its viewer's zone; programs speak UTC."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with timezone.override(named("" if request.path_info.startswith(API) else _told(request))):
            return self._get_response(request)


def _told(request: HttpRequest) -> str:
    """A form's own word comes first: what it labelled in one zone was typed in it, whatever the browser says now."""
    form = request.POST if request.method == "POST" else request.GET
    return form.get(COOKIE) or request.COOKIES.get(COOKIE, "")


def named(name: str) -> tzinfo:
    """UTC for a name that nobody knows: it comes from outside."""
    if not name or len(name) > LONGEST_NAME:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not there; no name at all; the name of a folder
        return UTC


def key() -> str:
    """By which `named` finds the zone in force; what it is called may be another thing ("+08")."""
    zone = timezone.get_current_timezone()
    return zone.key if isinstance(zone, ZoneInfo) else "UTC"


NAME = lazy(timezone.get_current_timezone_name, str)()
