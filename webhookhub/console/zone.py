"""The viewer's time zone: a script tells it in a cookie, so that times are read as they are shown.

Times that the pages show are put into the zone by the same script. Whoever has no script sees and types UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from .language import API

COOKIE = "hub_zone"
LONGEST_NAME = 64
EXAMPLE = "2026-01-31 18:30"


class ViewerZone:
    """What is typed and shown on a page is so in its viewer's zone; programs speak UTC."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        told = "" if request.path_info.startswith(API) else request.COOKIES.get(COOKIE, "")
        with timezone.override(named(told)):
            return self._get_response(request)


def named(name: str) -> tzinfo:
    """UTC for a name that nobody knows: it comes from outside."""
    if not name or len(name) > LONGEST_NAME:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not there; no name at all; the name of a folder
        return UTC


NAME = lazy(timezone.get_current_timezone_name, str)()
NOT_A_TIME = format_lazy(_("Write the time as {example} ({zone})."), example=EXAMPLE, zone=NAME)


class MomentInput(UnfoldAdminTextInputWidget):  # type: ignore[misc]
    """Pointed at, it says the moment in UTC, as the moments in a page do."""

    def get_context(self, name: str, value: Any, attrs: Any) -> Any:
        moment = _read(value)
        title = {"title": f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"} if moment else {}
        return super().get_context(name, value, {**(attrs or {}), **title})


class MomentField(forms.DateTimeField):
    """A moment, typed in the viewer's zone or with an offset of its own; cleaned, it is in UTC."""

    def __init__(self, label: Any, **options: Any) -> None:
        attributes = {"placeholder": EXAMPLE, "spellcheck": "false", "autocomplete": "off"}
        super().__init__(
            label=format_lazy("{label} ({zone})", label=label, zone=NAME),
            widget=MomentInput(attrs=attributes),
            error_messages={"invalid": NOT_A_TIME, "required": NOT_A_TIME},
            **options,
        )

    def to_python(self, value: Any) -> datetime | None:
        moment = super().to_python(value)
        if moment is None:
            return None
        if not 1970 < moment.year < 9999:
            raise ValidationError(NOT_A_TIME, code="invalid")
        return moment.astimezone(UTC)


def _read(text: Any) -> datetime | None:
    try:
        return MomentField("").to_python(text)
    except ValidationError:
        return None
