"""The forward proxy: whom its failures are due to, and when it is tried again.

A failure of the proxy itself uses up no attempt. Some of its responses may as well be due to the endpoint, because the
proxy could not connect to it. They count as the endpoint's failures if the proxy has connected to another host since
the first of them. If it has not, they count after an hour: otherwise the deliveries to a dead endpoint might never end.
"""

from __future__ import annotations

import time
from math import inf
from typing import Generic, TypeVar

import pycurl

from webhookhub.conf import ProxyAddress
from webhookhub.logs import Log, log

from . import error_codes
from .hosts import Backoff, Host

T = TypeVar("T")

# While the proxy connects to no host, its refusals are its own trouble for this long.
PROXY_FAILURE_SECONDS = 3600.0
# Failures are logged at most this often.
LOG_SECONDS = 60.0

TLS_ERRORS = (pycurl.E_SSL_CONNECT_ERROR, pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE)
# Never the endpoint's fault.
OWN_CODES = (error_codes.PROXY_UNREACHABLE, error_codes.PROXY_TLS_ERROR, error_codes.PROXY_AUTH_ERROR)


class Proxy(Generic[T]):
    def __init__(self, address: ProxyAddress) -> None:
        self.address = address
        self.host: Host[T] = Host(address.host, address.port, 1, address.is_ip)
        self.backoff = Backoff()
        # When it has last connected to an endpoint.
        self._tunnelled_at = -inf
        self._log_at = -inf

    def is_address(self, text: str) -> bool:
        """Whether this is an address of the proxy: the only ones that a tunnelled request may connect to."""
        if self.host.is_address:
            return text == self.host.name
        return self.host.answer is not None and text in self.host.answer.addresses

    def wait(self, host: Host[T], now: float) -> float:
        """For how many seconds no request to this host may be sent."""
        return max(self.backoff.wait(now), host.proxy_backoff.wait(now))

    def note_start(self, host: Host[T], now: float, seconds: float) -> None:
        """After a failure, one request is tried; the others wait for its result."""
        self.backoff.note_start(now, seconds)
        host.proxy_backoff.note_start(now, seconds)

    def note_tunnel(self, host: Host[T]) -> None:
        self._tunnelled_at = time.monotonic()
        self.backoff.clear()
        host.proxy_backoff.clear()

    def note_failure(self, host: Host[T] | None, code: str, started: float) -> bool:
        """Returns whether the failure counts as the endpoint's. Without a host, it is the proxy's own."""
        now = time.monotonic()
        self._log(code, now)
        if host is None or code in OWN_CODES:
            self.backoff.note_failure(started, now)
            return False
        self.backoff.clear()  # it responds
        host.use_next_address()
        host.proxy_backoff.note_failure(started, now)
        since = host.proxy_backoff.since
        if self._tunnelled_at >= since or now - since >= PROXY_FAILURE_SECONDS:
            host.proxy_backoff.release()
            return True
        return False

    def _log(self, code: str, now: float) -> None:
        if now >= self._log_at:
            self._log_at = now + LOG_SECONDS
            log(Log.PROXY_FAILED, host=self.address.host, error_code=code)


def failure_code(connect_status: int, curl_code: int, *, connected: bool) -> str:
    """The error code of a request for which the proxy did not open a tunnel."""
    if connect_status == 407:
        return error_codes.PROXY_AUTH_ERROR
    if connect_status:
        return error_codes.PROXY_REFUSED
    if curl_code in TLS_ERRORS:
        return error_codes.PROXY_TLS_ERROR
    if not connected:
        return error_codes.PROXY_UNREACHABLE
    return error_codes.PROXY_TIMEOUT if curl_code == pycurl.E_OPERATION_TIMEDOUT else error_codes.PROXY_ERROR
