"""What a browser may load and run on a page of the hub: nothing that the hub itself does not serve."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

HEADER = "Content-Security-Policy"
POLICY = "; ".join(
    [
        "default-src 'none'",
        # No script in a page, only files. The look's own (Alpine) reads the expressions in its attributes by evaluating
        # them; what strangers sent is put where it does not look (see `shown.block`).
        "script-src 'self' 'unsafe-eval'",
        # The look's colours are a style within the page.
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


class ContentSecurityPolicy:
    """Sets the header where a view has not set a stricter one of its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        response.headers.setdefault(HEADER, POLICY)
        return response
