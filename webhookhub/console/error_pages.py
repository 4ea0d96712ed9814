"""Error pages that Django has no handler for. Its own handlers use the templates 400, 403, 404 and 500."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader

RETRY_SECONDS = 5


def require_post(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Django's require_POST with a page for people, who may be redirected here after they log in."""

    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            return view(request, *args, **kwargs)
        response = render(request, "405.html", status=405)
        response["Allow"] = "POST"
        return response

    return wrapper


def unavailable(request: HttpRequest, reason: str) -> HttpResponse:
    """A page that says what the operator must fix before the request can be served."""
    response = render(request, "503.html", {"reason": reason}, status=503)
    response["Retry-After"] = str(RETRY_SECONDS)
    return response


def no_database() -> HttpResponse:
    """Rendered without the request, whose user would be read from the database."""
    page = loader.get_template("database_unavailable.html").render()
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_SECONDS)})
