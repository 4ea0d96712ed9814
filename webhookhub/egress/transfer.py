"""One transfer at a time: judged when it connects, bounded while it lasts.

Addresses are judged in the socket callback, when the connection is made, so a name that resolves to something
else than it did a moment ago gains nothing.
"""

from __future__ import annotations

import re
import socket
import time
from io import BytesIO
from typing import Any, Generic, TypeVar

import certifi
import pycurl

from webhookhub.conf import HubSettings

from . import errors, libcurl
from .addresses import may_reach_text
from .dns import Lookup
from .hosts import Receiver
from .messages import Request, Response
from .watchdog import Watchdog

T = TypeVar("T")
MAX_RESPONSE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 32 * 1024
KEPT_BODY_BYTES = 4096
# What a transfer that nobody has looked after gets to be caught up with.
GRACE_SECONDS = 1.0
RETRY_AFTER = re.compile(rb"^retry-after:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


class Slot(Generic[T]):
    """A libcurl handle with everything that stays the same set once, and the state of the transfer it carries."""

    def __init__(self, settings: HubSettings, watchdog: Watchdog) -> None:
        self.handle = pycurl.Curl()
        self._watchdog = watchdog
        self.headers, self.body = BytesIO(), BytesIO()
        self.url = ""
        self.receiver: Receiver[T]
        self.told: Lookup | None = None
        # Begun at a receiver that was not known to be quick.
        self.careful = False
        self._request_seconds = settings.request_timeout.total_seconds()
        self._connect_seconds = settings.connect_timeout.total_seconds()
        self._usual_times = True
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
            # A transfer's largest share of memory; 64 KB each if libcurl may choose.
            (pycurl.BUFFERSIZE, 16 * 1024),
            (pycurl.UPLOAD_BUFFERSIZE, 16 * 1024),
            (pycurl.OPENSOCKETFUNCTION, self._on_socket),
            (pycurl.WRITEFUNCTION, self._keep),
            # Straight into memory, without Python in between: a call for each line cost as much as signing. libcurl
            # itself gives up on 300 KB of headers (webhookhub.E003 sees to a version that does).
            (pycurl.HEADERFUNCTION, self.headers.write),
        ]:
            self.handle.setopt(option, value)
        # Some builds know a folder of public authorities besides.
        self.handle.unsetopt(pycurl.CAPATH)

    def load(self, tag: T, request: Request, receiver: Receiver[T], since: float) -> None:
        """`since` is when the request was begun, on the monotonic clock: looking up its name takes of its time."""
        self.tag = tag
        self.receiver = receiver
        self.started = since
        self.headers.seek(0)
        self.headers.truncate()
        self.body.seek(0)
        self.body.truncate()
        self.blocked = False
        set_option = self.handle.setopt
        if request.url != self.url:
            set_option(pycurl.URL, request.url)
            self.url = request.url
        set_option(pycurl.HTTPHEADER, ["Expect:", *request.headers])
        set_option(pycurl.POSTFIELDS, request.body)
        # Told once, libcurl remembers it for longer than a look-up is good for.
        if receiver.told is not receiver.lookup or self.told is not None:
            self._tell(receiver)
        late = time.monotonic() - since
        if late > 0.01:
            self._set_times(self._request_seconds - late, self._connect_seconds - late)
        elif not self._usual_times:
            self._set_times(self._request_seconds, self._connect_seconds)
            self._usual_times = True

    def spare(self) -> None:
        """Do not let the time count against the receiver in which nobody has looked after this transfer."""
        elapsed = time.monotonic() - self.started + GRACE_SECONDS
        self._set_times(max(self._request_seconds, elapsed), self._connect_seconds + elapsed)

    def _set_times(self, request_seconds: float, connect_seconds: float) -> None:
        self.handle.setopt(pycurl.TIMEOUT_MS, _milliseconds(request_seconds))
        self.handle.setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(connect_seconds))
        self._usual_times = False

    def _tell(self, receiver: Receiver[T]) -> None:
        self.told = None if receiver.told is receiver.lookup else receiver.lookup
        if self.told is None:
            self.handle.unsetopt(pycurl.RESOLVE)
        else:
            addresses = ",".join(f"[{each}]" if ":" in each else each for each in self.told.addresses)
            self.handle.setopt(pycurl.RESOLVE, [f"+{receiver.host}:{receiver.port}:{addresses}"])

    def answer(self, curl_code: int | None) -> Response:
        status = self.handle.getinfo(pycurl.RESPONSE_CODE) or None
        headers, body = self.headers.getvalue(), self.body.getvalue()
        return Response(
            self._error_code(curl_code, status, headers, body),
            int((time.monotonic() - self.started) * 1000),
            status,
            _retry_after(headers) if status in (429, 503) else None,
            body[:KEPT_BODY_BYTES],
        )

    def _error_code(self, curl_code: int | None, status: int | None, headers: bytes, body: bytes) -> str | None:
        if status is not None and status >= 300:
            return errors.http_code(status)  # said and done, however much came after it
        if len(headers) > MAX_HEADER_BYTES or len(body) > MAX_RESPONSE_BYTES:
            return errors.RESPONSE_TOO_LARGE
        if curl_code is None:
            if not _complete(headers):
                return errors.CONNECTION_LOST  # libcurl is content with headers that break off
            return errors.http_code(status) if status else errors.PROTOCOL_ERROR
        if self.blocked and curl_code in (pycurl.E_COULDNT_CONNECT, pycurl.E_OPERATION_TIMEDOUT):
            return errors.BLOCKED_ADDRESS
        return libcurl.CODES.get(curl_code, errors.PROTOCOL_ERROR)

    def _keep(self, piece: bytes) -> int:
        """libcurl's own bound would refuse a body that is announced as too large before its beginning is read, and that
        is what tells why a receiver failed. Whatever is not taken in whole ends the transfer."""
        return self.body.write(piece) if self.body.tell() <= MAX_RESPONSE_BYTES else 0

    def _on_socket(self, purpose: int, address: Any) -> Any:
        family, kind, protocol, where = address
        # A name with one address that may not be reached is not tried at its others either.
        self.blocked = self.blocked or not may_reach_text(where[0])
        if self.blocked:
            return pycurl.SOCKET_BAD
        try:
            made = socket.socket(family, kind, protocol)
            self._watchdog.note(made)
        except OSError:  # no IPv6 here, or no file descriptor left
            return pycurl.SOCKET_BAD
        return made


def _last(headers: bytes) -> bytes:
    """What belongs to the answer itself, without the informational ones (1xx) before it."""
    return headers[headers.rfind(b"\nHTTP/") + 1 :]


def _complete(headers: bytes) -> bool:
    """Whether an empty line follows the last status line; trailers may follow that."""
    if headers.endswith(b"\r\n\r\n"):
        return True
    last = _last(headers)
    return b"\r\n\r\n" in last or b"\n\n" in last


def _retry_after(headers: bytes) -> str | None:
    """The value of the answer's last Retry-After header."""
    found = RETRY_AFTER.findall(_last(headers))
    return found[-1].strip().decode("latin-1")[:100] if found else None


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))
