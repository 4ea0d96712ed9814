"""Make the request's API key or user the actor of its actions."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from .actions import API, CONSOLE
from .context import Actor, acting_as

ANONYMOUS = "not logged in"


class ActorMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with acting_as(lambda: _actor(request)):
            return self._get_response(request)


def _actor(request: HttpRequest) -> Actor:
    program = getattr(request, "program", None)
    if program is not None:
        return Actor(program, API)
    user = getattr(request, "user", None)
    return Actor(user.get_username() if user is not None and user.is_authenticated else ANONYMOUS, CONSOLE)
