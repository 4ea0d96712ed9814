"""One transfer: its address is checked when it connects, it is sent once, its response is bounded.

The address is checked in the socket callback, so DNS rebinding has no effect.

libcurl sends a request again by itself when a reused connection closes without a response, or when an HTTP/2 endpoint
refuses it. It reads the body before it sends anything, so a body that can be read only once prevents that.
"""

from __future__ import annotations

import re
import socket
import time
from io import BytesIO
from typing import Any, Generic, TypeVar

import certifi
import pycurl

from webhookhub import __version__
from webhookhub.conf import HubSettings

from . import error_codes, libcurl, proxy
from .addresses import may_reach_text
from .dns import Answer
from .hosts import Host
from .messages import ClientCertificate, Request, Response
from .proxy import Proxy
from .watchdog import Watchdog

T = TypeVar("T")
MAX_RESPONSE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 32 * 1024
# Many servers close a connection that has been idle for five seconds. A request sent at that moment would be lost.
MAX_IDLE_SECONDS = 4
# The time to catch up after a gap between polls.
GRACE_SECONDS = 1.0
# CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl does not name: the proxy's headers are not the endpoint's.
SUPPRESS_CONNECT_HEADERS = 265
RETRY_AFTER = re.compile(rb"^retry-after:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


class Transfer(Generic[T]):
    """A libcurl handle with its constant options, and the state of its current transfer. Reused for the next one."""

    def __init__(
        self, settings: HubSettings, watchdog: Watchdog, proxy: Proxy[T] | None = None, *, trace: bool = False
    ) -> None:
        """With `trace`, it looks for the cause of every lost connection, and not only of the second."""
        self.handle = pycurl.Curl()
        self._trace_all = trace
        self._proxy = proxy
        self._tunnel = ""
        self._watchdog = watchdog
        self.request_body = BytesIO()
        self.headers, self.body = BytesIO(), BytesIO()
        self.url = ""
        self.host: Host[T]
        # The addresses that libcurl gets with this transfer, if they are new.
        self.answer: Answer | None = None
        # Started while the host was not known to be fast.
        self.cautious = False
        self._request_seconds = settings.request_timeout.total_seconds()
        self._connect_seconds = settings.connect_timeout.total_seconds()
        self._default_timeouts = True
        self._own_connection = False
        self._certificate: ClientCertificate | None = None
        self._certificate_requested = False
        self._traced = False
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
            (pycurl.CONNECTTIMEOUT_MS, _milliseconds(self._connect_seconds)),
            (pycurl.TIMEOUT_MS, _milliseconds(self._request_seconds)),
            (pycurl.NOSIGNAL, 1),
            # Longer than any answer is used: libcurl must not resolve a name itself.
            (pycurl.DNS_CACHE_TIMEOUT, int(settings.dns_max_age.total_seconds()) + 60),
            # The largest part of a transfer's memory; libcurl's default is 64 KB each.
            (pycurl.BUFFERSIZE, 16 * 1024),
            (pycurl.UPLOAD_BUFFERSIZE, 16 * 1024),
            (pycurl.MAXAGE_CONN, MAX_IDLE_SECONDS),
            (pycurl.OPENSOCKETFUNCTION, self._on_socket),
            (pycurl.READFUNCTION, self.request_body.read),
            (pycurl.WRITEFUNCTION, self._write),
            (pycurl.DEBUGFUNCTION, self._on_trace),  # called while VERBOSE is on
            # Not a Python function: a call per header line cost as much as signing. libcurl itself limits headers to
            # 300 KB (webhookhub.E003 requires such a version).
            (pycurl.HEADERFUNCTION, self.headers.write),
        ]:
            self.handle.setopt(option, value)
        if proxy is not None:
            self._use_proxy(proxy, settings)
        # Some builds also trust a folder of public authorities.
        self.handle.unsetopt(pycurl.CAPATH)

    def _use_proxy(self, proxy: Proxy[T], settings: HubSettings) -> None:
        """The proxy is asked for an address by CONNECT; TLS with the endpoint and its name runs inside."""
        address = proxy.address
        host = f"[{address.host}]" if ":" in address.host else address.host
        for option, value in [
            (pycurl.PROXY, f"{address.scheme}://{host}:{address.port}"),
            (pycurl.NOPROXY, ""),  # hides that of the environment
            (pycurl.HTTPPROXYTUNNEL, 1),
            (SUPPRESS_CONNECT_HEADERS, 1),
            (pycurl.USERAGENT, f"WebhookHub/{__version__}"),  # for the proxy; requests have a header of their own
            (pycurl.PROXY_CAINFO, settings.ca_bundle or certifi.where()),
            (pycurl.PROXY_SSLVERSION, pycurl.SSLVERSION_TLSv1_2),
            (pycurl.PROXY_SSL_VERIFYPEER, 1),
            (pycurl.PROXY_SSL_VERIFYHOST, 2),
        ]:
            self.handle.setopt(option, value)
        self.handle.unsetopt(pycurl.PROXY_CAPATH)
        if address.username or address.password:
            self.handle.setopt(pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC)
            self.handle.setopt(pycurl.PROXYUSERNAME, address.username)
            self.handle.setopt(pycurl.PROXYPASSWORD, address.password)

    @property
    def connects_to(self) -> Host[T]:
        """The host whose addresses libcurl needs."""
        return self.host if self._proxy is None else self._proxy.host

    def load(self, tag: T, request: Request, host: Host[T], since: float) -> None:
        """`since` is the monotonic time of the request's start: the lookup counts towards its timeout."""
        if not request.body:
            raise ValueError("libcurl would repeat a request without a body")
        self.tag = tag
        self.host = host
        self.started = since
        self.headers.seek(0)
        self.headers.truncate()
        self.body.seek(0)
        self.body.truncate()
        self.blocked = False
        self.connected_anew = False
        set_option = self.handle.setopt
        if request.url != self.url:
            set_option(pycurl.URL, request.url)
            self.url = request.url
        set_option(pycurl.HTTPHEADER, ["Expect:", *request.headers])
        BytesIO.__init__(self.request_body, request.body)  # replaces the content without copying it
        set_option(pycurl.POSTFIELDSIZE, len(request.body))
        if request.certificate is not self._certificate:
            self._set_certificate(request.certificate)
        self._certificate_requested = False
        self._kept_body = request.kept_body
        # Not always: it takes about as long as signing.
        if (trace := self._trace_all or host.lost or request.certificate is not None) != self._traced:
            self._traced = trace
            set_option(pycurl.VERBOSE, trace)
        if (since < host.reuse_at) != self._own_connection:
            self._own_connection = not self._own_connection
            set_option(pycurl.FRESH_CONNECT, self._own_connection)
            set_option(pycurl.FORBID_REUSE, self._own_connection)
        if self._proxy is not None:
            self._set_tunnel(host)
            host = self._proxy.host
        if host.libcurl_answer is not host.answer or self.answer is not None:
            self._set_addresses(host)
        late = time.monotonic() - since
        if late > 0.01:
            self._set_timeouts(self._request_seconds - late, self._connect_seconds - late)
        elif not self._default_timeouts:
            self._set_timeouts(self._request_seconds, self._connect_seconds)
            self._default_timeouts = True

    def _set_certificate(self, certificate: ClientCertificate | None) -> None:
        """libcurl reuses neither connections nor TLS sessions of another certificate."""
        self._certificate = None
        for option in (pycurl.SSLCERT_BLOB, pycurl.SSLKEY_BLOB):
            self.handle.unsetopt(option)
        if certificate is not None:
            self.handle.setopt(pycurl.SSLCERT_BLOB, certificate.chain)
            self.handle.setopt(pycurl.SSLKEY_BLOB, certificate.key)
        self._certificate = certificate

    def extend(self) -> None:
        """Extend the timeouts after a gap between polls, which is not the endpoint's fault."""
        elapsed = time.monotonic() - self.started + GRACE_SECONDS
        self._set_timeouts(max(self._request_seconds, elapsed), self._connect_seconds + elapsed)

    def _set_timeouts(self, request_seconds: float, connect_seconds: float) -> None:
        self.handle.setopt(pycurl.TIMEOUT_MS, _milliseconds(request_seconds))
        self.handle.setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(connect_seconds))
        self._default_timeouts = False

    def _set_tunnel(self, host: Host[T]) -> None:
        address = host.address_for_proxy()
        tunnel = f"::[{address}]:{host.port}" if ":" in address else f"::{address}:{host.port}"
        if tunnel != self._tunnel:
            self.handle.setopt(pycurl.CONNECT_TO, [tunnel])
            self._tunnel = tunnel

    def _set_addresses(self, host: Host[T]) -> None:
        self.answer = None if host.libcurl_answer is host.answer else host.answer
        if self.answer is None:
            self.handle.unsetopt(pycurl.RESOLVE)
        else:
            addresses = ",".join(f"[{text}]" if ":" in text else text for text in self.answer.addresses)
            self.handle.setopt(pycurl.RESOLVE, [f"+{host.name}:{host.port}:{addresses}"])

    def response(self, curl_code: int | None) -> Response:
        status = self.handle.getinfo(pycurl.RESPONSE_CODE) or None
        headers, body = self.headers.getvalue(), self.body.getvalue()
        return Response(
            self._error_code(curl_code, status, headers, body),
            int((time.monotonic() - self.started) * 1000),
            status,
            _retry_after(headers) if status in (429, 503) else None,
            body[: self._kept_body],
        )

    @property
    def has_tunnelled(self) -> bool:
        """Whether the proxy has opened a tunnel for this request; False for a connection that was reused."""
        return bool(self.handle.getinfo(pycurl.HTTP_CONNECTCODE) // 100 == 2)

    def proxy_failure(self, curl_code: int | None) -> str | None:
        """The error code, if the proxy did not open a tunnel; the request was not sent then."""
        if self._proxy is None or curl_code is None or not self.connected_anew or self.has_tunnelled:
            return None
        connected = self.handle.getinfo(pycurl.CONNECT_TIME) > 0
        return proxy.failure_code(self.handle.getinfo(pycurl.HTTP_CONNECTCODE), curl_code, connected=connected)

    def _error_code(self, curl_code: int | None, status: int | None, headers: bytes, body: bytes) -> str | None:
        if status is not None and status >= 300:
            return error_codes.http_code(status)  # whatever comes after it
        if (code := self.proxy_failure(curl_code)) is not None:
            return code
        if len(headers) > MAX_HEADER_BYTES or len(body) > MAX_RESPONSE_BYTES:
            return error_codes.RESPONSE_TOO_LARGE
        if curl_code is None:
            if not _complete(headers):
                return error_codes.CONNECTION_LOST  # libcurl accepts truncated headers
            return error_codes.http_code(status) if status else error_codes.PROTOCOL_ERROR
        if self.blocked and curl_code in (pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT):
            return error_codes.BLOCKED_ADDRESS
        message = self.handle.errstr()
        code = libcurl.client_certificate_code(
            curl_code,
            message,
            sent=self._certificate is not None,
            requested=self._certificate_requested and not headers,
        )
        return code or libcurl.error_code(curl_code, message)

    def _on_trace(self, kind: int, text: bytes) -> None:
        if kind == pycurl.INFOTYPE_TEXT and libcurl.REQUEST_FOR_CERTIFICATE in text:
            self._certificate_requested = True

    def _write(self, chunk: bytes) -> int:
        """Returns less than the chunk's length to end the transfer.

        libcurl's own limit would refuse a body by its Content-Length before its first bytes, which explain the failure.
        """
        return self.body.write(chunk) if self.body.tell() <= MAX_RESPONSE_BYTES else 0

    def _on_socket(self, purpose: int, address: Any) -> Any:
        family, kind, protocol, where = address
        self.connected_anew = True
        # One forbidden address blocks the name's other addresses, too.
        self.blocked = self.blocked or not self._may_connect(where[0])
        if self.blocked:
            return pycurl.SOCKET_BAD
        try:
            connection = socket.socket(family, kind, protocol)
            self._watchdog.watch(connection)
        except OSError:  # no IPv6, or no file descriptor left
            return pycurl.SOCKET_BAD
        return connection

    def _may_connect(self, address: str) -> bool:
        """Through a proxy, the endpoint's address was judged before: nothing but the proxy may be connected to."""
        return may_reach_text(address) if self._proxy is None else self._proxy.is_address(address)


def _last(headers: bytes) -> bytes:
    """The headers of the final response, without informational ones (1xx)."""
    return headers[headers.rfind(b"\nHTTP/") + 1 :]


def _complete(headers: bytes) -> bool:
    """Whether an empty line follows the last status line; trailers may follow that."""
    if headers.endswith(b"\r\n\r\n"):
        return True
    last = _last(headers)
    return b"\r\n\r\n" in last or b"\n\n" in last


def _retry_after(headers: bytes) -> str | None:
    """The value of the last Retry-After header."""
    values = RETRY_AFTER.findall(_last(headers))
    return values[-1].strip().decode("latin-1")[:100] if values else None


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))
