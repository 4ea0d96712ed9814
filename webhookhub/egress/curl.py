"""Everything that leaves the hub leaves through here: one thread, many transfers, on libcurl's multi interface.

Addresses are judged in the socket callback, when the connection is made, so a name that resolves to something
else than it did a moment ago gains nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Generic, TypeVar

import certifi
import pycurl

from webhookhub.conf import HubSettings, hub

from . import errors
from .addresses import may_reach

T = TypeVar("T")
MAX_RESPONSE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 32 * 1024
KEPT_BODY_BYTES = 4096

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
}


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    headers: Sequence[str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `error_code` is None exactly when the receiver answered 2xx."""

    error_code: str | None
    duration_ms: int
    status: int | None = None
    retry_after: str | None = None
    body: bytes = b""


@dataclass(slots=True)
class _Transfer(Generic[T]):
    tag: T
    started: float
    handle: Any
    body: bytearray = field(default_factory=bytearray)
    received: int = 0
    header_bytes: int = 0
    retry_after: str | None = None
    blocked: bool = False
    too_large: bool = False

    def on_body(self, chunk: bytes) -> int | None:
        self.received += len(chunk)
        if self.received > MAX_RESPONSE_BYTES:
            self.too_large = True
            return 0  # tells libcurl to give up
        if len(self.body) < KEPT_BODY_BYTES:
            self.body += chunk[: KEPT_BODY_BYTES - len(self.body)]
        return None

    def on_header(self, line: bytes) -> int | None:
        self.header_bytes += len(line)
        if self.header_bytes > MAX_HEADER_BYTES:
            self.too_large = True
            return 0
        name, _, value = line.partition(b":")
        if name.lower() == b"retry-after":
            self.retry_after = value.strip().decode("latin-1")[:100]
        return None

    def on_socket(self, purpose: int, address: Any) -> Any:
        family, kind, protocol, where = address
        try:
            allowed = may_reach(ip_address(where[0]))
        except ValueError:
            allowed = False
        if not allowed:
            self.blocked = True
            return pycurl.SOCKET_BAD
        return socket.socket(family, kind, protocol)


class Engine(Generic[T]):
    """Sends requests, each with a tag of the caller's, and hands back tags with answers as they come in."""

    def __init__(self, concurrency: int, settings: HubSettings | None = None) -> None:
        self.concurrency = concurrency
        self._settings = settings or hub()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, self._settings.connections_per_host)
        self._multi.setopt(pycurl.M_MAXCONNECTS, concurrency)
        self._under_way: dict[Any, _Transfer[T]] = {}
        self._idle: list[Any] = []
        self._refused: list[tuple[T, Answer]] = []

    @property
    def in_flight(self) -> int:
        return len(self._under_way) + len(self._refused)

    @property
    def free(self) -> int:
        return max(0, self.concurrency - self.in_flight)

    def submit(self, tag: T, request: Request) -> None:
        handle = self._idle.pop() if self._idle else pycurl.Curl()
        transfer = _Transfer(tag, time.monotonic(), handle)
        try:
            self._prepare(handle, request, transfer)
        except (pycurl.error, ValueError):
            handle.close()
            self._refused.append((tag, Answer(errors.INVALID_REQUEST, 0)))
            return
        self._under_way[handle] = transfer
        self._multi.add_handle(handle)

    def poll(self, timeout: float) -> list[tuple[T, Answer]]:
        """Move every transfer on, waiting at most `timeout` seconds for something to happen."""
        finished, self._refused = self._refused, []
        if not self._under_way:
            return finished
        self._perform()
        finished += self._collect()
        if not finished and timeout > 0:
            self._multi.select(timeout)
            self._perform()
            finished += self._collect()
        return finished

    def close(self) -> None:
        for handle in self._under_way:
            self._multi.remove_handle(handle)
            handle.close()
        self._under_way.clear()
        for handle in self._idle:
            handle.close()
        self._multi.close()

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
        transfer = self._under_way.pop(handle)
        self._multi.remove_handle(handle)
        status = handle.getinfo(pycurl.RESPONSE_CODE) or None
        duration = int((time.monotonic() - transfer.started) * 1000)
        # reset() forgets the request and its callbacks but keeps the connection and TLS session
        handle.reset()
        self._idle.append(handle)
        return transfer.tag, Answer(
            error_code=self._error_code(transfer, curl_code, status),
            duration_ms=duration,
            status=status,
            retry_after=transfer.retry_after if status in (429, 503) else None,
            body=bytes(transfer.body),
        )

    @staticmethod
    def _error_code(transfer: _Transfer[T], curl_code: int | None, status: int | None) -> str | None:
        if transfer.too_large:
            return errors.RESPONSE_TOO_LARGE
        if curl_code is None:
            return errors.http_code(status) if status else errors.PROTOCOL_ERROR
        if transfer.blocked and curl_code in (pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT):
            return errors.BLOCKED_ADDRESS
        return CODES.get(curl_code, errors.PROTOCOL_ERROR)

    def _prepare(self, handle: Any, request: Request, transfer: _Transfer[T]) -> None:
        settings = self._settings
        options: list[tuple[int, Any]] = [
            (pycurl.URL, request.url),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTPS),
            (pycurl.POST, 1),
            (pycurl.POSTFIELDS, request.body),
            (pycurl.HTTPHEADER, ["Expect:", *request.headers]),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.PROXY, ""),  # an empty proxy also hides those of the environment
            (pycurl.NETRC, pycurl.NETRC_IGNORED),
            (pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2),
            (pycurl.SSL_VERIFYPEER, 1),
            (pycurl.SSL_VERIFYHOST, 2),
            (pycurl.CAINFO, settings.ca_bundle or certifi.where()),
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS),
            (pycurl.CONNECTTIMEOUT_MS, max(1, int(settings.connect_timeout.total_seconds() * 1000))),
            (pycurl.TIMEOUT_MS, max(1, int(settings.request_timeout.total_seconds() * 1000))),
            (pycurl.NOSIGNAL, 1),
            (pycurl.BUFFERSIZE, 16 * 1024),
            (pycurl.OPENSOCKETFUNCTION, transfer.on_socket),
            (pycurl.WRITEFUNCTION, transfer.on_body),
            (pycurl.HEADERFUNCTION, transfer.on_header),
        ]
        for option, value in options:
            handle.setopt(option, value)


def send(request: Request, settings: HubSettings | None = None, *, stop: Callable[[], bool] = lambda: False) -> Answer:
    """One request, start to end: for verification and tests of an endpoint. Deliveries use an Engine of their own."""
    engine: Engine[None] = Engine(1, settings)
    try:
        engine.submit(None, request)
        while not stop():
            for _, answer in engine.poll(1.0):
                return answer
        return Answer(errors.TIMEOUT, 0)
    finally:
        engine.close()
