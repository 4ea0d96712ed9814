"""The addresses that machines ask, answered before anything else looks at the request."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase

from . import views

VIEWS = {"/healthz": views.healthz, "/readyz": views.readyz, "/metrics": views.metrics}
METHODS = ["GET", "HEAD"]


class Probes:
    """Comes first of all: whoever probes knows an address and not a name, so that the names under which the hub is
    served cannot be held against it, and needs neither session nor user."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        view = VIEWS.get(request.path_info)
        if view is None:
            return self._get_response(request)
        answer = view(request) if request.method in METHODS else HttpResponseNotAllowed(METHODS)
        return _uncached(answer)


def _uncached(answer: HttpResponse) -> HttpResponse:
    answer["Cache-Control"] = "no-store"
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
