"""Limits how often log-ins may be attempted, in the database: the limits hold for all web servers together.

An attempt is counted before the password is checked, so parallel attempts cannot exceed a limit. A log-in that succeeds
gives its own allowance back.

An attacker must not lock a user out. From one address, the limit on name and address stops an attack long before the
limit on the name. A browser in which the user has logged in before has a cookie, and with it an allowance of its own.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address, ip_network
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.db.models import F, Value
from django.db.models.functions import Greatest
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

from webhookhub import proxies
from webhookhub.db import clock
from webhookhub.db.retry import one_statement

from .models import Allowance

SECOND = 1_000_000  # microseconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BUCKETS = 65_536
COOKIE = "hub_device"
COOKIE_AGE = timedelta(days=180)
IPV6_PREFIX = 64  # what one customer of a provider gets


class Limit(NamedTuple):
    """`at_once` attempts, and then one every `seconds`."""

    name: str
    at_once: int
    seconds: int


NAME_AND_ADDRESS = Limit("pair", 5, 60)
ADDRESS = Limit("address", 30, 10)
NAME = Limit("name", 100, 30)
BROWSER = Limit("browser", 10, 60)
# Codes of a user's second factor, for those who know the password.
CODE = Limit("code", 20, 300)
# Entries of failed log-ins in the audit log, which is kept for ever.
AUDIT = Limit("audit", 100, 60)


class TooManyAttempts(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Attempt:
    """The limits of one attempt to log in as `name`: with a password, or with the code of a second factor."""

    def __init__(self, request: HttpRequest, name: str, *, is_code: bool = False) -> None:
        # By id: some collations find the same user by several spellings.
        pk = User.objects.filter(username=name).values_list("pk", flat=True).first()
        self.user_id = pk
        who = name.casefold() if pk is None else f"#{pk}"
        address = network_of(request.META.get("REMOTE_ADDR", ""))
        browser = _browser(request, pk)
        self.is_known_browser = browser is not None
        self._own = (NAME_AND_ADDRESS, f"{who} {address}") if browser is None else (BROWSER, browser)
        self._shared = [(ADDRESS, address), (NAME, who)] if browser is None else []
        if is_code:
            self._own = NAME_AND_ADDRESS, f"code {who} {address}"
            self._shared = [(CODE, who)]

    def count(self) -> None:
        """Raises TooManyAttempts if a limit is exceeded."""
        now = _microseconds(clock.now())
        for limit, key in (self._own, *self._shared):
            wait = take(limit, key, now)
            if wait:
                raise TooManyAttempts(wait)

    def forgive(self) -> None:
        """After a success: the user may log in again at once."""
        limit, key = self._own
        one_statement(lambda: Allowance.objects.filter(bucket=_bucket(limit, key)).update(spent_until=0))


def take(limit: Limit, key: str, now: int | None = None) -> float:
    """Counts one attempt. Returns 0, or the seconds to wait if the limit is exceeded."""
    at = _microseconds(clock.now()) if now is None else now
    cost = limit.seconds * SECOND
    latest = at + (limit.at_once - 1) * cost
    row = Allowance.objects.filter(bucket=_bucket(limit, key))
    spent = Greatest(F("spent_until"), Value(at)) + cost
    if one_statement(lambda: row.filter(spent_until__lte=latest).update(spent_until=spent)):
        return 0
    spent_until = row.values_list("spent_until", flat=True).first()
    if spent_until is None:
        new = Allowance(bucket=_bucket(limit, key))
        one_statement(lambda: Allowance.objects.bulk_create([new], ignore_conflicts=True))
        return take(limit, key, at)
    return max(0.001, (spent_until - latest) / SECOND)


def remember_browser(response: HttpResponse, user_id: int) -> None:
    """Sets the cookie of a browser in which the user has logged in."""
    response.set_cookie(
        COOKIE,
        signing.dumps([user_id, secrets.token_urlsafe(12)], salt=COOKIE),
        max_age=COOKIE_AGE,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def network_of(address: str) -> str:
    """An address as it is counted: IPv6 clients have a whole network each."""
    parsed = proxies.parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network(f"{parsed}/{IPV6_PREFIX}", strict=False))
    return str(parsed or "")


def _browser(request: HttpRequest, user_id: int | None) -> str | None:
    """The id of a browser in which this user has logged in before."""
    try:
        owner, browser = signing.loads(request.COOKIES.get(COOKIE, ""), salt=COOKIE, max_age=COOKIE_AGE)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return str(browser) if owner == user_id and user_id is not None else None


def _bucket(limit: Limit, key: str) -> str:
    # Keyed: an attacker cannot choose names that share a bucket with a user's.
    number = int(salted_hmac("log-in", key, algorithm="sha256").hexdigest()[:8], 16) % BUCKETS
    return f"{limit.name}-{number}"


def _microseconds(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)
