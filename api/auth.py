"""Authentication of requests by API key."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer

from . import keys
from .keys import Caller
from .models import ApiKey
from .problems import Problem

NAME_LENGTH = 150
UNAUTHORIZED = "Send a valid API key: Authorization: Bearer whk_…"


class ApiKeyAuth(HttpBearer):
    """Requires a key with this scope. `hub_wide`, the name of a resource, requires a key without a source, too."""

    openapi_bearerFormat = "whk_<id>_<secret>"

    def __init__(self, scope: str, *, hub_wide: str = "") -> None:
        super().__init__()
        self._scope = scope
        self._hub_wide = hub_wide

    def __call__(self, request: HttpRequest) -> Caller:
        caller: Any = super().__call__(request)
        if caller is None:
            # The same response whatever is wrong, so that it does not reveal which keys exist.
            raise Problem(401, UNAUTHORIZED, headers={"WWW-Authenticate": 'Bearer realm="WebhookHub"'})
        if not caller.key.has_scope(self._scope):
            raise Problem(403, f"This key lacks the scope {self._scope}.")
        if self._hub_wide and caller.key.readable_source is not None:
            detail = f"This key is bound to the source {caller.key.source}; use a key without a source"
            raise Problem(403, f"{detail} for {self._hub_wide}.")
        assert isinstance(caller, Caller)
        # The audit log's actor: see webhookhub/auditlog/middleware.py.
        request.program = actor_name(caller.key)  # type: ignore[attr-defined]
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        return keys.find(token)


def actor_name(key: ApiKey) -> str:
    """The key's name as an actor, next to user names."""
    return f"API key {key.name}"[:NAME_LENGTH]


def caller_of(request: HttpRequest) -> Caller:
    """The caller of an authenticated request."""
    caller = request.auth  # type: ignore[attr-defined]
    assert isinstance(caller, Caller)
    return caller
