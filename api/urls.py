"""Everything under /api/, and problem documents for what is not there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, re_path
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt

from . import problems
from .application import api

PREFIX = "/api/"
DOCUMENTATION = ("openapi-json", "openapi-view")


@csrf_exempt
def nothing_here(request: HttpRequest, **kwargs: Any) -> HttpResponse:
    return problems.not_found().response()


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django itself refuses, such as a host that is not served."""
    if not request.path.startswith(PREFIX):
        return defaults.bad_request(request, exception)
    return problems.Problem(400, "The request cannot be read, or this host is not served here.").response()


def server_error(request: HttpRequest) -> HttpResponse:
    if not request.path.startswith(PREFIX):
        return defaults.server_error(request)
    return problems.unexpected().response()


def answering(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A wrong method is a problem like any other; and no answer is for keeping, for some show a secret."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        if response.status_code == 405:
            allowed = ", ".join(sorted(response["Allow"].split(", ")))
            detail = f"{request.method} is not for this address; there is {allowed}."
            response = problems.Problem(405, detail, headers={"Allow": allowed}).response()
        response["Cache-Control"] = "no-store"
        return response

    return answer


_patterns, _name, _namespace = api.urls
for _pattern in _patterns:
    if isinstance(_pattern, URLPattern) and _pattern.name == "api-root":
        _pattern.callback = nothing_here  # it is there for its address only
    elif isinstance(_pattern, URLPattern) and _pattern.name not in DOCUMENTATION:
        _pattern.callback = answering(_pattern.callback)

urlpatterns = [path("", (_patterns, _name, _namespace)), re_path(r"^", nothing_here)]
