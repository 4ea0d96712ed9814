"""Every request acts as whoever has shown who they are: an API key, or a user who has logged in."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from .actions import API, CONSOLE
from .context import Actor, acting

NOBODY = "nobody who is logged in"


class Acting:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with acting(lambda: _who(request)):
            return self._get_response(request)


def _who(request: HttpRequest) -> Actor:
    """Asked when something is done: a key is known only after the middleware, a user perhaps since a moment ago."""
    program = getattr(request, "program", None)
    if program is not None:
        return Actor(program, API)
    user = getattr(request, "user", None)
    return Actor(user.get_username() if user is not None and user.is_authenticated else NOBODY, CONSOLE)
