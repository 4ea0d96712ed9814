"""The page that shows the API, with nothing in it from anywhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

# Swagger UI sets styles in its markup; scripts come from our own static files only.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


def guarded(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    def with_policy(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["Content-Security-Policy"] = POLICY
        return response

    return wraps(getattr(view, "func", view))(with_policy)
