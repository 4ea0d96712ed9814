"""Who sends a request, and whether they may."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer

from . import keys
from .keys import Caller
from .models import ApiKey
from .problems import Problem

NAME_LENGTH = 150
UNKNOWN = "Send a valid API key: Authorization: Bearer whk_…"


class ApiKeyAuth(HttpBearer):
    """A key with the given scope; `hub_wide`, which names what it is about, asks for one that is not bound to a
    producer, too."""

    openapi_bearerFormat = "whk_<id>_<secret>"

    def __init__(self, scope: str, *, hub_wide: str = "") -> None:
        super().__init__()
        self._scope = scope
        self._hub_wide = hub_wide

    def __call__(self, request: HttpRequest) -> Caller:
        caller: Any = super().__call__(request)
        if caller is None:
            # The same answer whatever is wrong: it must not tell which keys exist.
            raise Problem(401, UNKNOWN, headers={"WWW-Authenticate": 'Bearer realm="WebhookHub"'})
        if not caller.key.may(self._scope):
            raise Problem(403, f"This key lacks the scope {self._scope}.")
        if self._hub_wide and caller.key.sees is not None:
            raise Problem(
                403, f"This key belongs to the source {caller.key.source}; {self._hub_wide} are the whole hub's."
            )
        assert isinstance(caller, Caller)
        # Whatever is done from here on is done by this key: see webhookhub/auditlog/middleware.py.
        request.program = named(caller.key)  # type: ignore[attr-defined]
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        return keys.find(token)


def named(key: ApiKey) -> str:
    """As it is called where people are named too."""
    return f"API key {key.name}"[:NAME_LENGTH]


def caller_of(request: HttpRequest) -> Caller:
    """Who sends a request that ApiKeyAuth has let in."""
    caller = request.auth  # type: ignore[attr-defined]
    assert isinstance(caller, Caller)
    return caller
