"""Everything that leaves the hub leaves through here: one thread, many transfers, on libcurl's multi interface.

Addresses are judged in the socket callback, when the connection is made, so a name that resolves to something
else than it did a moment ago gains nothing.
"""

from __future__ import annotations

import re
import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from ipaddress import ip_address
from typing import Any, Generic, NamedTuple, TypeVar

import certifi
import pycurl

from webhookhub.conf import HubSettings, hub

from . import errors
from .addresses import may_reach

T = TypeVar("T")
MAX_RESPONSE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 32 * 1024
KEPT_BODY_BYTES = 4096
END_OF_HEADERS = (b"\r\n\r\n", b"\n\n", b"\n\r\n")
RETRY_AFTER = re.compile(rb"^retry-after:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
# The first libcurl that bounds all headers of a response together.
LEAST_LIBCURL = (8, 4, 0)

CODES = {
    pycurl.E_OPERATION_TIMEDOUT: errors.TIMEOUT,
    pycurl.E_COULDNT_RESOLVE_HOST: errors.DNS_ERROR,
    pycurl.E_COULDNT_CONNECT: errors.CONNECT_ERROR,
    pycurl.E_SSL_CONNECT_ERROR: errors.TLS_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: errors.TLS_ERROR,
    pycurl.E_SSL_CACERT_BADFILE: errors.TLS_ERROR,
    pycurl.E_SSL_CERTPROBLEM: errors.TLS_ERROR,
    pycurl.E_SSL_CIPHER: errors.TLS_ERROR,
    pycurl.E_GOT_NOTHING: errors.CONNECTION_LOST,
    pycurl.E_RECV_ERROR: errors.CONNECTION_LOST,
    pycurl.E_SEND_ERROR: errors.CONNECTION_LOST,
    pycurl.E_PARTIAL_FILE: errors.CONNECTION_LOST,
    pycurl.E_HTTP2: errors.PROTOCOL_ERROR,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: errors.PROTOCOL_ERROR,
    pycurl.E_UNSUPPORTED_PROTOCOL: errors.PROTOCOL_ERROR,
    pycurl.E_URL_MALFORMAT: errors.INVALID_REQUEST,
    100: errors.RESPONSE_TOO_LARGE,  # CURLE_TOO_LARGE, which pycurl does not name: a header line without end
}


# Tuples and not dataclasses: one of each is made for every delivery, and these are made in half the time.
class Request(NamedTuple):
    url: str
    headers: Sequence[str]
    body: bytes

    @property
    def origin(self) -> str:
        """The receiver, as far as its share of connections goes: scheme, host and port."""
        return self.url[: self.url.find("/", 8)]


class Answer(NamedTuple):
    """What came back. `error_code` is None exactly when the receiver answered 2xx."""

    error_code: str | None
    duration_ms: int
    status: int | None = None
    retry_after: str | None = None
    body: bytes = b""


class _Slot(Generic[T]):
    """A libcurl handle with everything that stays the same set once, and the state of the transfer it carries."""

    def __init__(self, settings: HubSettings) -> None:
        self.handle = pycurl.Curl()
        self.headers = BytesIO()
        self.url = ""
        for option, value in [
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTPS),
            (pycurl.POST, 1),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.PROXY, ""),  # an empty proxy also hides those of the environment
            (pycurl.NETRC, pycurl.NETRC_IGNORED),
            (pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2),
            (pycurl.SSL_VERIFYPEER, 1),
            (pycurl.SSL_VERIFYHOST, 2),
            (pycurl.CAINFO, settings.ca_bundle or certifi.where()),
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS),
            (pycurl.CONNECTTIMEOUT_MS, _milliseconds(settings.connect_timeout)),
            (pycurl.TIMEOUT_MS, _milliseconds(settings.request_timeout)),
            (pycurl.NOSIGNAL, 1),
            (pycurl.BUFFERSIZE, 16 * 1024),
            (pycurl.OPENSOCKETFUNCTION, self._on_socket),
            (pycurl.WRITEFUNCTION, self._on_body),
            # Straight into memory, without Python in between: three calls for each delivery cost as much as signing it.
            # libcurl itself gives up on 300 KB of headers (webhookhub.E003 sees to a version that does).
            (pycurl.HEADERFUNCTION, self.headers.write),
        ]:
            self.handle.setopt(option, value)
        # Some builds know a folder of public authorities besides.
        self.handle.unsetopt(pycurl.CAPATH)

    def load(self, tag: T, request: Request, origin: str, resolve: Sequence[str]) -> None:
        self.tag = tag
        self.origin = origin
        self.body = bytearray()
        self.received = 0
        self.headers.seek(0)
        self.headers.truncate()
        self.blocked = self.too_large = False
        set_option = self.handle.setopt
        if request.url != self.url:
            set_option(pycurl.URL, request.url)
            self.url = request.url
        set_option(pycurl.HTTPHEADER, ["Expect:", *request.headers])
        set_option(pycurl.POSTFIELDS, request.body)
        if resolve:
            set_option(pycurl.RESOLVE, list(resolve))
        self.started = time.monotonic()

    def answer(self, curl_code: int | None) -> Answer:
        status = self.handle.getinfo(pycurl.RESPONSE_CODE) or None
        return Answer(
            error_code=self._error_code(curl_code, status),
            duration_ms=int((time.monotonic() - self.started) * 1000),
            status=status,
            retry_after=_retry_after(self.headers.getvalue()) if status in (429, 503) else None,
            body=bytes(self.body),
        )

    def _error_code(self, curl_code: int | None, status: int | None) -> str | None:
        if self.too_large or self.headers.tell() > MAX_HEADER_BYTES:
            return errors.RESPONSE_TOO_LARGE
        if curl_code is None:
            if not self.headers.getvalue().endswith(END_OF_HEADERS):
                return errors.CONNECTION_LOST  # libcurl is content with headers that break off
            return errors.http_code(status) if status else errors.PROTOCOL_ERROR
        if self.blocked and curl_code in (pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT):
            return errors.BLOCKED_ADDRESS
        return CODES.get(curl_code, errors.PROTOCOL_ERROR)

    def _on_body(self, chunk: bytes) -> int | None:
        self.received += len(chunk)
        if self.received > MAX_RESPONSE_BYTES:
            self.too_large = True
            return 0  # tells libcurl to give up
        if len(self.body) < KEPT_BODY_BYTES:
            self.body += chunk[: KEPT_BODY_BYTES - len(self.body)]
        return None

    def _on_socket(self, purpose: int, address: Any) -> Any:
        family, kind, protocol, where = address
        try:
            allowed = may_reach(ip_address(where[0]))
        except ValueError:
            allowed = False
        # A name with one address that may not be reached is not tried at its others either.
        self.blocked = self.blocked or not allowed
        if self.blocked:
            return pycurl.SOCKET_BAD
        try:
            return socket.socket(family, kind, protocol)
        except OSError:  # no IPv6 here, or no file descriptor left
            return pycurl.SOCKET_BAD


class Engine(Generic[T]):
    """Sends requests, each with a tag of the caller's, and hands back tags with answers as they come in.

    Requests beyond what one receiver may have at once wait here and not in libcurl, whose clock would run for them.

    `resolve` gives names their addresses (`host:port:address,address`) in place of the name service; they are judged
    like any others. It is read anew for each request: a test can change it in between.
    """

    def __init__(self, concurrency: int, settings: HubSettings | None = None, resolve: Sequence[str] = ()) -> None:
        self.concurrency = concurrency
        self._resolve = resolve
        self._settings = settings or hub()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, concurrency)
        self._under_way: dict[Any, _Slot[T]] = {}
        self._idle: list[_Slot[T]] = []
        self._per_origin: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Waiting[T]]] = {}
        self._refused: list[tuple[T, Answer]] = []

    @property
    def waiting(self) -> int:
        """Requests that wait for their receiver to have fewer under way."""
        return sum(len(queue) for queue in self._waiting.values())

    @property
    def in_flight(self) -> int:
        return len(self._under_way) + len(self._refused) + self.waiting

    @property
    def free(self) -> int:
        return max(0, self.concurrency - self.in_flight)

    def submit(self, tag: T, request: Request) -> None:
        origin = request.origin
        if self._per_origin[origin] < self._settings.requests_per_host:
            self._start(tag, request, origin)
        else:
            self._waiting.setdefault(origin, deque()).append(_Waiting(time.monotonic(), tag, request))

    def poll(self, timeout: float) -> list[tuple[T, Answer]]:
        """Move every transfer on, waiting at most `timeout` seconds for something to happen."""
        finished, self._refused = self._refused, []
        if not self._under_way:
            return finished
        self._perform()
        finished += self._collect()
        if not finished and timeout > 0:
            self._multi.select(self._patience(timeout))
            self._perform()
            finished += self._collect()
        return finished

    def withdraw(self, seconds: float) -> list[T]:
        """Take back the requests that have waited for longer than `seconds`: they were not sent."""
        before = time.monotonic() - seconds
        withdrawn = []
        for queue in self._waiting.values():
            while queue and queue[0].since <= before:
                withdrawn.append(queue.popleft().tag)
        return withdrawn

    def close(self) -> None:
        for slot in self._under_way.values():
            self._multi.remove_handle(slot.handle)
            slot.handle.close()
        for slot in self._idle:
            slot.handle.close()
        self._under_way.clear()
        self._idle.clear()
        self._multi.close()

    def _start(self, tag: T, request: Request, origin: str) -> None:
        slot = self._idle.pop() if self._idle else _Slot[T](self._settings)
        try:
            slot.load(tag, request, origin, self._resolve)
        except (pycurl.error, ValueError):
            slot.handle.close()
            self._refused.append((tag, Answer(errors.INVALID_REQUEST, 0)))
            return
        self._per_origin[origin] += 1
        self._under_way[slot.handle] = slot
        self._multi.add_handle(slot.handle)

    def _patience(self, timeout: float) -> float:
        """At most `timeout`: sooner when libcurl has something to do by itself, such as data it has read already."""
        milliseconds = self._multi.timeout()
        return timeout if milliseconds < 0 else min(timeout, milliseconds / 1000)

    def _perform(self) -> None:
        while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
            pass

    def _collect(self) -> list[tuple[T, Answer]]:
        finished = []
        while True:
            left, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                finished.append(self._finish(handle, None))
            for handle, code, _ in failed:
                finished.append(self._finish(handle, code))
            if not left:
                return finished

    def _finish(self, handle: Any, curl_code: int | None) -> tuple[T, Answer]:
        slot = self._under_way.pop(handle)
        self._multi.remove_handle(handle)
        result = slot.tag, slot.answer(curl_code)
        self._idle.append(slot)
        self._let_next(slot.origin)
        return result

    def _let_next(self, origin: str) -> None:
        self._per_origin[origin] -= 1
        if not self._per_origin[origin]:
            del self._per_origin[origin]
        queue = self._waiting.get(origin)
        # More than one when the next cannot even be started: nothing else would come back for those behind it.
        while queue and self._per_origin[origin] < self._settings.requests_per_host:
            following = queue.popleft()
            self._start(following.tag, following.request, origin)
        if queue is not None and not queue:
            del self._waiting[origin]


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    since: float
    tag: T
    request: Request


def libcurl_version() -> tuple[int, ...]:
    return tuple(int(part) for part in pycurl.version_info()[1].split("-")[0].split("."))


def _retry_after(headers: bytes) -> str | None:
    """The value of the last Retry-After header."""
    found = RETRY_AFTER.findall(headers)
    return found[-1].strip().decode("latin-1")[:100] if found else None


def _milliseconds(duration: timedelta) -> int:
    return max(1, int(duration.total_seconds() * 1000))


def send(request: Request, settings: HubSettings | None = None, resolve: Sequence[str] = ()) -> Answer:
    """One request, start to end: to verify or test an endpoint. Deliveries use an Engine of their own."""
    engine: Engine[None] = Engine(1, settings, resolve)
    try:
        engine.submit(None, request)
        while True:
            for _, answer in engine.poll(0.1):
                return answer
    finally:
        engine.close()
