"""Responses to requests that reach no operation of the API. Requests outside /api/ get the console's error pages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt

from webhookhub.console import error_pages
from webhookhub.db.errors import Kind, kind_of
from webhookhub.logs import Log, log

from . import problems
from .problems import Problem

PREFIX = "/api/"
# Swagger UI sets styles in its markup.
DOCUMENTATION_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@csrf_exempt
def not_found(request: HttpRequest, **kwargs: Any) -> HttpResponse:
    return problems.not_found().response()


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """For requests that Django itself refuses, such as one with an unknown host."""
    if not request.path.startswith(PREFIX):
        return defaults.bad_request(request, exception)
    return Problem(400, "The request is malformed, or its host is not in WEBHOOKHUB_ALLOWED_HOSTS.").response()


def server_error(request: HttpRequest) -> HttpResponse:
    """For exceptions outside the API's operations; Django calls it while it handles the exception."""
    error = sys.exc_info()[1]
    kind = kind_of(error) if error else Kind.OTHER
    is_api = request.path.startswith(PREFIX)
    if kind.is_temporary:
        log(Log.DATABASE_LOST, process="web", error=type(error).__name__, cause=kind.value)
        return problems.no_database().response() if is_api else error_pages.no_database()
    return problems.unexpected().response() if is_api else defaults.server_error(request)


def documentation(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Gives the page a stricter content security policy than the console's."""

    @wraps(getattr(view, "func", view))  # a partial has no name
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["Content-Security-Policy"] = DOCUMENTATION_POLICY
        return response

    return wrapper


def operation(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Makes a wrong method a problem document, and forbids caching because some responses contain a secret."""

    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        if response.status_code == 405:
            allowed = sorted(response["Allow"].split(", "))
            detail = f"Method {request.method} is not allowed; use {' or '.join(allowed)}."
            response = Problem(405, detail, headers={"Allow": ", ".join(allowed)}).response()
        response["Cache-Control"] = "no-store"
        return response

    return wrapper
