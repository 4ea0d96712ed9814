"""Authentication of requests by API key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer

from webhookhub.logs import Log, log

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
        caller = authenticate(request.META, self._scope, keys.find)
        if self._hub_wide and caller.key.readable_source is not None:
            detail = f"This key is bound to the source {caller.key.source}; use a key without a source"
            raise Problem(403, f"{detail} for {self._hub_wide}.")
        # The audit log's actor: see webhookhub/auditlog/middleware.py.
        request.program = actor_name(caller.key)  # type: ignore[attr-defined]
        return caller

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        """Abstract in ninja's class, which calls it from the method that is replaced above."""
        return keys.find(token)


def authenticate(environ: Mapping[str, Any], scope: str, find: Callable[[str], Caller | None]) -> Caller:
    """The caller with the key of this request. Raises Problem 401, or 403 if the key lacks the scope or may not be used
    from there."""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    caller = find(token) if scheme.lower() == HttpBearer.openapi_scheme else None
    if caller is None:
        # The same response whatever is wrong, so that it does not reveal which keys exist.
        raise Problem(401, UNAUTHORIZED, headers={"WWW-Authenticate": 'Bearer realm="WebhookHub"'})
    if caller.key.networks:
        _check_network(caller.key, environ.get("REMOTE_ADDR", ""))
    if not caller.key.has_scope(scope):
        raise Problem(403, f"This key lacks the scope {scope}.")
    return caller


def _check_network(key: ApiKey, address: str) -> None:
    if not key.may_be_used_from(address):
        log(Log.API_KEY_REFUSED, key_id=key.key_id, name=key.name, address=address)
        raise Problem(403, f"This key may not be used from {address or 'a Unix socket'}; use one of its networks.")


def actor_name(key: ApiKey) -> str:
    """The key's name as an actor, next to user names."""
    return f"API key {key.name}"[:NAME_LENGTH]


def caller_of(request: HttpRequest) -> Caller:
    """The caller of an authenticated request."""
    caller = request.auth  # type: ignore[attr-defined]
    assert isinstance(caller, Caller)
    return caller
