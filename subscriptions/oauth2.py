"""OAuth2 client credentials (RFC 6749 §4.4): the token request of an endpoint, and the tokens of a process.

A token is kept in memory until shortly before it expires, and fetched once for all requests that wait for it.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import quote_plus, urlencode

from django.utils.translation import gettext as _

from webhookhub import __version__
from webhookhub.egress import error_codes
from webhookhub.egress.messages import Request, Response
from webhookhub.egress.urls import UnacceptableURL, normalise

from .credentials import InvalidCredentials, OAuth2Client

T = TypeVar("T")

BASIC, POST = AUTHENTICATIONS = ("basic", "post")
MAX_LENGTHS = {"client_id": 500, "client_secret": 2000, "scope": 1000, "audience": 500}
MAX_TOKEN_LENGTH = 16_000
MAX_RESPONSE_BYTES = 64 * 1024
# The lifetime of a token whose response has none, and the longest one that is used.
DEFAULT_SECONDS = 300.0
MAX_SECONDS = 86_400.0
# A token is not used in this last part of its lifetime, at most MARGIN_SECONDS.
MARGIN_SHARE = 0.1
MARGIN_SECONDS = 60.0
# After a 401, a token is replaced at most this often.
RENEW_SECONDS = 60.0
# How long a refusal is remembered, so that waiting deliveries do not all ask again.
REFUSED_SECONDS = 10.0
# The pause after the token server could not be reached; it doubles up to the maximum.
MIN_PAUSE_SECONDS = 2.0
MAX_PAUSE_SECONDS = 60.0
# An unreachable token server uses up no attempt for this long. After that it does: otherwise the deliveries of an
# endpoint whose token server is gone would never end.
UNREACHABLE_SECONDS = 3600.0
MAX_CACHED = 10_000


def check(client: OAuth2Client) -> OAuth2Client:
    """The client in its stored form, or InvalidCredentials."""
    errors = {}
    for name, limit in MAX_LENGTHS.items():
        value = getattr(client, name)
        if not value and name.startswith("client"):
            errors[name] = _("must not be empty")
        elif len(value) > limit:
            errors[name] = _("has more than %(limit)s characters") % {"limit": limit}
        elif not value.isprintable():
            errors[name] = _("holds a control character")
    if client.authentication not in AUTHENTICATIONS:
        errors["authentication"] = _("must be basic or post")
    try:
        client = client._replace(token_url=normalise(client.token_url))
    except UnacceptableURL as error:
        # The message is about a callback URL: the same rules hold.
        errors["token_url"] = _("The same rules as for a callback URL hold. %(error)s") % {"error": error}
    if errors:
        raise InvalidCredentials(errors)
    return client


def token_request(client: OAuth2Client) -> Request:
    form = {"grant_type": "client_credentials"}
    form |= {name: value for name in ("scope", "audience") if (value := getattr(client, name))}
    headers = [
        "Content-Type: application/x-www-form-urlencoded",
        "Accept: application/json",
        f"User-Agent: WebhookHub/{__version__}",
    ]
    if client.authentication == BASIC:
        # Both are encoded as in a form before they are joined (RFC 6749 §2.3.1).
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
        headers.append(f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    else:
        form |= {"client_id": client.client_id, "client_secret": client.client_secret}
    return Request(client.token_url, headers, urlencode(form).encode(), kept_body=MAX_RESPONSE_BYTES)


class Token(NamedTuple):
    """Either a token, or the error code of the failure to get one."""

    text: str = ""
    seconds: float = 0.0
    error_code: str = ""

    def __repr__(self) -> str:
        return f"Token(error_code={self.error_code!r})"

    @property
    def header(self) -> str:
        return f"Authorization: Bearer {self.text}"


def read_token(response: Response) -> Token:
    """The token in a response of the token server, which may be anything."""
    if response.error_code is not None:
        # 4xx is about the client; 408 and 429 ask to come back later.
        refused = response.status is not None and 300 <= response.status < 500 and response.status not in (408, 429)
        return Token(error_code=error_codes.TOKEN_REFUSED if refused else _own_code(response.error_code))
    try:
        document = json.loads(response.body)
        text, kind = document["access_token"], document.get("token_type", "Bearer")
        seconds = float(document.get("expires_in") or DEFAULT_SECONDS)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return Token(error_code=error_codes.TOKEN_INVALID)
    usable = (
        isinstance(text, str)
        and 0 < len(text) <= MAX_TOKEN_LENGTH
        and text.isascii()
        and text.isprintable()
        and " " not in text
        and isinstance(kind, str)
        and kind.lower() == "bearer"
        and seconds > 0
    )
    if not usable:
        return Token(error_code=error_codes.TOKEN_INVALID)
    return Token(text, min(seconds, MAX_SECONDS))


def _own_code(code: str) -> str:
    """Of a token server that could not be reached. What the owner must correct keeps its own code."""
    return code if code in (error_codes.BLOCKED_ADDRESS, error_codes.INVALID_REQUEST) else error_codes.TOKEN_UNREACHABLE


class _Source(Generic[T]):
    """The token of one client, and the requests that wait for it."""

    def __init__(self) -> None:
        self.token = Token()
        # Until when the token, or the refusal, is used.
        self.until = 0.0
        self.fetching = False
        self.waiting: list[tuple[float, T]] = []
        self.renewed_at = -RENEW_SECONDS
        self.unreachable_since = 0.0
        self.pause = 0.0
        self.retry_at = 0.0


class Tokens(Generic[T]):
    """The tokens of a process. `fetch` starts a token request; its response is given to `note_response`."""

    def __init__(self, fetch: Callable[[OAuth2Client], None]) -> None:
        self._fetch = fetch
        self._sources: dict[OAuth2Client, _Source[T]] = {}

    @property
    def waiting(self) -> int:
        return sum(len(source.waiting) for source in self._sources.values()) if self._sources else 0

    def get(self, client: OAuth2Client, tag: T) -> Token | None:
        """The token, or its error; None if `tag` has to wait for it."""
        now = time.monotonic()
        source = self._source(client)
        if now < source.until:
            return source.token
        source.waiting.append((now, tag))
        if not source.fetching and now >= source.retry_at:
            source.fetching = True
            self._fetch(client)
        return None

    def note_response(self, client: OAuth2Client, response: Response) -> tuple[Token, list[T]]:
        """The token and the requests that have waited for it. An error code that is empty tells them to try later."""
        now = time.monotonic()
        source = self._source(client)
        token = read_token(response)
        source.fetching = False
        if token.error_code == error_codes.TOKEN_UNREACHABLE:
            source.unreachable_since = source.unreachable_since or now
            self._pause(source, now)
            if now - source.unreachable_since < UNREACHABLE_SECONDS:
                token = Token()
        else:
            source.unreachable_since = source.pause = source.retry_at = 0.0
            margin = min(token.seconds * MARGIN_SHARE, MARGIN_SECONDS)
            source.token = token
            source.until = now + (REFUSED_SECONDS if token.error_code else token.seconds - margin)
        waiting, source.waiting = [tag for _, tag in source.waiting], []
        return token, waiting

    def note_withdrawn(self, client: OAuth2Client) -> list[T]:
        """The token request was not sent, because of the hub's own resolver or proxy; returns what has waited."""
        source = self._source(client)
        source.fetching = False
        self._pause(source, time.monotonic())
        waiting, source.waiting = [tag for _, tag in source.waiting], []
        return waiting

    def note_unauthorized(self, client: OAuth2Client, token: str) -> None:
        """The endpoint has responded with 401: the next request gets a new token, but not again and again."""
        now = time.monotonic()
        source = self._source(client)
        if source.token.text == token and now - source.renewed_at >= RENEW_SECONDS:
            source.renewed_at = now
            source.until = 0.0

    def withdraw(self, seconds: float) -> list[tuple[OAuth2Client, T]]:
        """The requests that have waited for `seconds`, or for a pause; the token request goes on without them."""
        if not self._sources:
            return []
        before = time.monotonic() - seconds
        withdrawn = []
        for client, source in self._sources.items():
            while source.waiting and (not source.fetching or source.waiting[0][0] <= before):
                withdrawn.append((client, source.waiting.pop(0)[1]))
        return withdrawn

    def wait(self, client: OAuth2Client) -> float:
        """For how many seconds a request without a token should be deferred."""
        return max(MIN_PAUSE_SECONDS, self._source(client).retry_at - time.monotonic())

    def _pause(self, source: _Source[T], now: float) -> None:
        source.pause = min(max(2 * source.pause, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)
        source.retry_at = now + source.pause

    def _source(self, client: OAuth2Client) -> _Source[T]:
        source = self._sources.get(client)
        if source is None:
            if len(self._sources) >= MAX_CACHED:
                idle = (key for key, item in self._sources.items() if not item.waiting and not item.fetching)
                if (oldest := next(idle, None)) is not None:
                    del self._sources[oldest]
            source = self._sources[client] = _Source()
        return source
