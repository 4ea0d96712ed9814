"""Stores events: `POST /api/v1/events` and `POST /api/v1/events/batch`.

webhookhub/wsgi.py calls `application` for these requests. They do not pass Django's middleware, which costs more than
storing an event. The operations in events.py, which describe the API, use the same functions.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from events.errors import EventConflict, InvalidEvent, PayloadTooLarge, ReservedEventType
from events.group_commit import GroupCommit, Result
from events.intake import NewEvent, Published, publish_many
from webhookhub.conf import hub
from webhookhub.db.ingest import ingest_connection

from . import auth, event_parsing, keys, limits, parsing, problems
from .keys import Caller
from .problems import Problem
from .scopes import EVENTS_WRITE

MAX_BATCH_EVENTS = 1000
MAX_KEY_LENGTH = 200
STATUSES: dict[type[Exception], int] = {ReservedEventType: 403, EventConflict: 409, PayloadTooLarge: 413}
# Django checks the connections of its thread before every request. Here, that would be a statement per request.
CHECK_CONNECTIONS_SECONDS = 1.0
# The middleware of settings.py that adds headers to every response.
MIDDLEWARE_OF_HEADERS = (
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "webhookhub.console.middleware.ContentSecurityPolicyMiddleware",
    "django.middleware.security.SecurityMiddleware",
)
Environ = Mapping[str, Any]  # of WSGI; also request.META

_logger = logging.getLogger("django.request")


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def for_django(self) -> HttpResponse:
        return HttpResponse(self.body, status=self.status, headers=self.headers)


class _Thread(threading.local):
    """When this thread last handled a request."""

    active_at = 0.0


_thread = _Thread()


def send(environ: Environ, caller: Caller) -> Response:
    """201: the event is stored durably. 200: it was stored before, with the same external_id."""
    idempotency_key = environ.get("HTTP_IDEMPOTENCY_KEY")
    if idempotency_key is not None and len(idempotency_key) > MAX_KEY_LENGTH:
        raise problems.invalid("Idempotency-Key", f"must have at most {MAX_KEY_LENGTH} characters")
    limits.consume(caller, 1)
    text = parsing.text(environ, event_parsing.MAX_EVENT_BYTES)
    if (weight := limits.weight(text)) > 1:
        limits.consume(caller, weight - 1)
    key = parsing.idempotency_key(idempotency_key, "external_id")
    try:
        [result] = _commit.publish([event_parsing.parse_event(text, caller.key.event_source, key)])
    except InvalidEvent as error:
        result = error
    if not isinstance(result, Published):
        raise _problem(result)
    body = {"uid": str(result.uid), "created": result.created, "correlation_id": result.correlation_id}
    headers = {"Content-Type": "application/json; charset=utf-8", "Location": f"/api/v1/events/{result.uid}"}
    return Response(201 if result.created else 200, headers, json.dumps(body).encode())


def send_many(environ: Environ, caller: Caller) -> Response:
    """One result per event, in the same order. A refused event does not affect the others."""
    if "HTTP_IDEMPOTENCY_KEY" in environ:
        raise problems.invalid("Idempotency-Key", "is not allowed for a batch; give each event an external_id")
    limits.consume(caller, 1)
    text = parsing.text(environ, hub().api_batch_bytes)
    # Before the body is parsed, and even if it is invalid.
    weight = limits.weight(text)
    limits.consume(caller, weight - 1)
    try:
        parsed = event_parsing.parse_batch(text, caller.key.event_source, MAX_BATCH_EVENTS)
    except InvalidEvent as error:
        raise _problem(error) from None
    limits.consume(caller, max(0, len(parsed) - weight))
    published = iter(_commit.publish([event for event in parsed if isinstance(event, NewEvent)]))
    results = [next(published) if isinstance(event, NewEvent) else event for event in parsed]
    body = {"results": [_result(index, result) for index, result in enumerate(results)]}
    return Response(200, {"Content-Type": "application/json"}, json.dumps(body).encode())


OPERATIONS = {"/api/v1/events": send, "/api/v1/events/batch": send_many}


def is_for(environ: Environ) -> bool:
    """Whether `application` handles this request. Django handles all others, and refuses an unknown host."""
    return environ["REQUEST_METHOD"] == "POST" and environ.get("PATH_INFO") in OPERATIONS and _has_valid_host(environ)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The WSGI application of these two operations."""
    if time.monotonic() - _thread.active_at > CHECK_CONNECTIONS_SECONDS:
        _close_old_connections()
    path = environ["PATH_INFO"]
    try:
        caller = auth.authenticate(environ, EVENTS_WRITE, keys.find_cached)
        response = OPERATIONS[path](environ, caller)
    except Problem as problem:
        response = _refusal(problem, path)
    except Exception as error:  # noqa: BLE001  # as Django does; it is logged
        _close_old_connections()
        response = _refusal(problems.of_exception(error, path), path)
    _thread.active_at = time.monotonic()
    headers = {**response.headers, **_headers(), "Content-Length": str(len(response.body))}
    start_response(_status_line(response.status), list(headers.items()))
    return [response.body]


def _close_old_connections() -> None:
    """As Django does before a request: closes the connections of this thread that are old or do not work."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _publish(events: Sequence[NewEvent]) -> list[Result]:
    with ingest_connection():
        return publish_many(events)


_commit = GroupCommit(lambda events: _publish(events))


def _result(index: int, result: Result) -> dict[str, object]:
    if isinstance(result, Published):
        status = 201 if result.created else 200
        return {"status": status, "uid": str(result.uid), "correlation_id": result.correlation_id}
    problem = _problem(result, f"events[{index}]")
    return {"status": problem.status, "problem": problem.document()}


def _problem(error: InvalidEvent | EventConflict, place: str = "") -> Problem:
    """`place` is the event's place in a batch, such as events[0]."""
    if isinstance(error, EventConflict):
        field, why, uid = "external_id", "is used by another event, with a different type, payload or labels", error.uid
    else:
        field, why, uid = error.field, error.why, None
    if place:
        field = place if field == event_parsing.EVENT else f"{place}.{field}"
    return Problem(STATUSES.get(type(error), 422), f"{field} {why}.", [(field, why)], uid=uid)


def _refusal(problem: Problem, path: str) -> Response:
    """Logged as Django logs it."""
    level = logging.ERROR if problem.status >= 500 else logging.WARNING
    reason = HTTPStatus(problem.status).phrase
    _logger.log(level, "%s: %s", reason, path, extra={"status_code": problem.status})
    return Response(problem.status, {"Content-Type": problems.MEDIA_TYPE, **problem.headers}, problem.body())


def _has_valid_host(environ: Environ) -> bool:
    # Without the header, Django takes the server's own name.
    return _is_valid_host(environ.get("HTTP_HOST", environ["SERVER_NAME"]), tuple(settings.ALLOWED_HOSTS))


# Cached: Django's check takes longer than the rest of the dispatch.
@lru_cache(maxsize=100)
def _is_valid_host(host: str, allowed: tuple[str, ...]) -> bool:
    """Whether Django accepts this host. `allowed` only makes the cache follow the setting."""
    request = HttpRequest()
    request.META["HTTP_HOST"] = host
    try:
        request.get_host()
    except DisallowedHost:
        return False
    return True


@cache
def _headers() -> Mapping[str, str]:
    """The headers that the API's operations and Django's middleware add to every response."""

    def respond(request: HttpRequest) -> HttpResponse:
        return HttpResponse(headers={"Content-Type": "", "Cache-Control": "no-store"})

    for middleware in MIDDLEWARE_OF_HEADERS:
        respond = import_string(middleware)(respond)
    request = HttpRequest()
    if settings.SECURE_PROXY_SSL_HEADER:
        name, value = settings.SECURE_PROXY_SSL_HEADER
        request.META[name] = value
    return {name: value for name, value in respond(request).headers.items() if name != "Content-Type"}


@cache
def _status_line(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}"
