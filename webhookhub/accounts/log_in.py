"""Checks passwords, and begins sessions. Every failure is logged, with the address and the name that was entered."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import authenticate, login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from webhookhub.auditlog import actions
from webhookhub.auditlog.record import record
from webhookhub.logs import Log, log

from . import throttle
from .passwords import Busy, slots
from .sessions import METHOD
from .throttle import Attempt, TooManyAttempts

BACKEND = "django.contrib.auth.backends.ModelBackend"
ANONYMOUS = "not logged in"
PASSWORD, SSO = "password", "sso"
WRONG_PASSWORD, TOO_MANY, BUSY, WRONG_CODE = "wrong_password", "too_many_attempts", "busy", "wrong_code"
BUSY_SECONDS = 5.0

# Failures that were not recorded because of the limit on entries, in this process.
_omitted = 0


def check_password(request: HttpRequest, name: str, password: str) -> User | None:
    """The user with this password, who may use the console. Raises TooManyAttempts."""
    attempt = Attempt(request, name)
    try:
        attempt.count()
        with slots.slot(is_known_browser=attempt.is_known_browser):
            user: Any = authenticate(request, username=name, password=password)
    except TooManyAttempts:
        note_failure(request, name, attempt.user_id, TOO_MANY)
        raise
    except Busy:
        note_failure(request, name, attempt.user_id, BUSY)
        raise TooManyAttempts(BUSY_SECONDS) from None
    if user is None or not user.is_staff:
        note_failure(request, name, attempt.user_id, WRONG_PASSWORD)
        return None
    attempt.forgive()
    return user  # type: ignore[no-any-return]


def begin_session(request: HttpRequest, user: User, method: str, response: HttpResponse) -> HttpResponse:
    """Logs the user in, and returns the response with the cookie of a known browser."""
    login(request, user, backend=BACKEND)
    request.session[METHOD] = method
    address = request.META.get("REMOTE_ADDR", "")
    log(Log.LOGGED_IN, user=user.get_username(), address=address, method=method)
    record(actions.LOG_IN, user, by=user.get_username(), details={"address": address, "method": method})
    throttle.remember_browser(response, user.pk)
    return response


def note_failure(request: HttpRequest, name: str, user_id: int | None, cause: str, **fields: str) -> None:
    """`fields` are for the log only."""
    global _omitted
    address = request.META.get("REMOTE_ADDR", "")
    log(Log.LOG_IN_FAILED, name=name, address=address, cause=cause, **fields)
    if throttle.take(throttle.AUDIT, ""):
        _omitted += 1
        return
    omitted, _omitted = _omitted, 0
    details = {"address": address, "cause": cause} | ({"omitted": omitted} if omitted else {})
    record(actions.LOG_IN_FAILED, kind="user", id=user_id, name=name, by=ANONYMOUS, details=details)
