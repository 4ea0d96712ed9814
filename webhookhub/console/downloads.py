"""What is too long for a page, whole: for the button that copies it, and to be kept as a file."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from events.models import Event
from webhookhub.console import format

from . import request_preview as requests

PERMISSION = "events.view_event"


def payload(request: HttpRequest, number: int) -> HttpResponse:
    """As a page shows it, but all of it."""
    event = _event(request, number)
    return _file(format.visible(format.pretty(event.payload)), f"payload-{event.uid}.json")


def body(request: HttpRequest, number: int) -> HttpResponse:
    """Byte for byte what is sent."""
    return _file(requests.body(_event(request, number)), "body.json")


def _event(request: HttpRequest, number: int) -> Event:
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    return get_object_or_404(Event, pk=number)


def _file(text: str, name: str) -> HttpResponse:
    # Text whatever it holds, and never a page of the hub's: strangers wrote it.
    answer = HttpResponse(text.encode("utf-8", "backslashreplace"), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["Content-Security-Policy"] = "default-src 'none'; sandbox"
    answer["Cache-Control"] = "no-store"
    return answer
