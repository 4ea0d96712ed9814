"""Sessions end after a working day, and earlier without requests."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from webhookhub.conf import hub
from webhookhub.logs import Log, log

STARTED, SEEN, METHOD = "started_at", "seen_at", "log_in_method"
# Written at most once a minute, to save a write per request.
SEEN_INTERVAL = 60
# A session that has just begun may change how its user logs in.
FRESH_SECONDS = 900


class SessionLimitsMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Without a cookie there is no session to look at: the API's requests have none.
        if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.is_authenticated:
            _check(request)
        return self._get_response(request)


def _check(request: HttpRequest) -> None:
    session, now = request.session, time.time()
    started, seen = session.get(STARTED, 0.0), session.get(SEEN, 0.0)
    age, idle = now - started, now - seen
    if age > hub().session_age.total_seconds() or idle > hub().session_idle.total_seconds():
        log(Log.SESSION_ENDED, user=request.user.get_username(), age=int(age), idle=int(idle))
        logout(request)
    elif idle > SEEN_INTERVAL and request.path != reverse("admin:overview"):
        # Not for the overview, which reloads itself while nobody is there.
        session[SEEN] = now


def is_fresh(request: HttpRequest) -> bool:
    return bool(time.time() - request.session.get(STARTED, 0.0) < FRESH_SECONDS)


def _on_log_in(request: HttpRequest, **kwargs: object) -> None:
    request.session[STARTED] = request.session[SEEN] = time.time()


def connect() -> None:
    user_logged_in.connect(_on_log_in, dispatch_uid="webhookhub.accounts.sessions")
