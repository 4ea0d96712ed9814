"""Sends all outgoing requests: one thread, many transfers, on libcurl's multi interface."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil, inf
from typing import Any, Generic, NamedTuple, TypeVar

import pycurl

from webhookhub.conf import HubSettings, hub

from . import dns, error_codes
from .addresses import may_reach_text
from .dns import Lookup, Resolver
from .hosts import FAST, UNKNOWN, Host, Hosts, QueuedRequest
from .messages import Request, Response
from .proxy import Proxy
from .transfer import Transfer
from .watchdog import Watchdog

T = TypeVar("T")

# The share of a worker's slots for all hosts that are not known to be fast.
CAUTIOUS_SHARE = 0.75
# After such a gap between polls, timeouts are extended: the response may have arrived long ago.
LONG_GAP_SECONDS = 1.0
# How often unfinished lookups are checked.
LOOKUP_SECONDS = 0.005


class Engine(Generic[T]):
    """Sends requests, each with a tag of the caller, and returns the tags with their responses.

    Requests beyond a host's limit wait here and not in libcurl, whose timeout would already run.
    """

    def __init__(
        self,
        concurrency: int,
        settings: HubSettings | None = None,
        resolver: Resolver | None = None,
        *,
        max_lookup_seconds: float | None = None,
        trace: bool = False,
        started: Callable[[T], object] = lambda tag: None,
    ) -> None:
        """A request whose name is not resolved after `max_lookup_seconds` is withdrawn.

        With `trace`, the cause of a lost connection is found at the first request.
        `started` is called with the tag of each request that is not withdrawn any more: it gets a response.
        """
        self.concurrency = concurrency
        self._resolver = resolver or dns.SHARED
        self._settings = settings or hub()
        self._started = started
        self._trace = trace
        self._watchdog = Watchdog()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, concurrency)
        self._running: dict[Any, Transfer[T]] = {}
        self._idle: list[Transfer[T]] = []
        self._hosts: Hosts[T] = Hosts(self._settings.requests_per_host)
        self._hosts_with_queue: dict[Host[T], None] = {}
        self._unresolved: list[_Unresolved[T]] = []
        self._withdrawn: list[T] = []
        # The error code of the last request that was withdrawn because of a lookup or of the proxy.
        self.withdrawal_code = error_codes.DNS_ERROR
        address = self._settings.egress_proxy
        self._proxy: Proxy[T] | None = None if address is None else Proxy(address)
        self._max_lookup_seconds = dns.LATE_SECONDS if max_lookup_seconds is None else max_lookup_seconds
        self._unsent: list[tuple[T, Response]] = []
        self._queued = 0
        self._cautious = 0
        self._max_cautious = ceil(concurrency * CAUTIOUS_SHARE)
        self._polled_at = time.monotonic()
        self._connect_seconds = self._settings.connect_timeout.total_seconds()

    @property
    def in_flight(self) -> int:
        return len(self._running) + len(self._unresolved) + len(self._unsent) + len(self._withdrawn) + self._queued

    @property
    def free(self) -> int:
        return max(0, self.concurrency - self.in_flight)

    @property
    def has_queue(self) -> bool:
        """Whether requests wait for their turn, or for an address."""
        return bool(self._queued or self._unresolved)

    def accepts(self, url: str) -> bool:
        """Whether a request would be sent soon: at once, or after others to the same fast host."""
        host = self._hosts.at(url)
        now = time.monotonic()
        if self._proxy is not None and self._proxy.wait(host, now):
            return False
        lookup = self._resolve(host, now)
        if lookup is not None and self._is_stuck(lookup, now):
            return False  # the lookup goes on without the request
        return self._has_room(host) or host.may_queue

    def defer_seconds(self, url: str) -> float:
        """How long to defer a request that is not accepted or was withdrawn."""
        host = self._hosts.at(url)
        seconds = host.defer_seconds()
        return seconds if self._proxy is None else max(seconds, self._proxy.wait(host, time.monotonic()))

    def submit(self, tag: T, request: Request) -> None:
        host = self._hosts.at(request.url)
        if self._has_room(host):
            self._start(tag, request, host)
        else:
            host.queue.append(QueuedRequest(time.monotonic(), tag, request))
            self._queued += 1
            self._hosts_with_queue[host] = None

    def poll(self, timeout: float) -> list[tuple[T, Response]]:
        """Drive all transfers, waiting at most `timeout` seconds for a response."""
        if self._unresolved:
            self._start_resolved()
        self._extend_after_gap()
        finished = self._perform() if self._running else []
        if self._unsent:
            finished += self._unsent
            self._unsent = []
        if finished or timeout <= 0 or self._withdrawn or not self.in_flight:
            return finished
        self._wait(timeout)
        return self.poll(0)

    def idle_for(self) -> float:
        """For how many seconds poll() would do nothing, unless one of the files is ready."""
        if self._unsent or self._withdrawn:
            return 0.0
        seconds = LOOKUP_SECONDS if self._unresolved else inf
        milliseconds = self._multi.timeout() if self._running else -1
        return seconds if milliseconds < 0 else min(seconds, milliseconds / 1000)

    def files(self) -> tuple[list[int], list[int]]:
        """The file descriptors that transfers wait to read from and to write to."""
        if not self._running:
            return [], []
        readable, writable, _ = self._multi.fdset()
        return readable, writable

    def withdraw(self, seconds: float) -> list[T]:
        """Remove the queued requests that have waited for `seconds`, or whose host is slow now; they were not sent.

        So are requests whose names could not be resolved in time, or for which the forward proxy opened no tunnel, if
        that is not the endpoint's fault.
        """
        before = time.monotonic() - seconds
        withdrawn, self._withdrawn = self._withdrawn, []
        for host in list(self._hosts_with_queue):
            queue = host.queue
            if queue and queue[0].since <= before:
                host.note_queue_timeout()
            while queue and (queue[0].since <= before or not host.may_queue):
                withdrawn.append(queue.popleft().tag)
                self._queued -= 1
            if not queue:
                del self._hosts_with_queue[host]
        return withdrawn

    def close(self) -> None:
        self._watchdog.turn += 1  # libcurl reads from connections while it closes them
        for transfer in self._running.values():
            self._multi.remove_handle(transfer.handle)
            transfer.handle.close()
        for transfer in self._idle:
            transfer.handle.close()
        self._running.clear()
        self._idle.clear()
        self._multi.close()
        self._watchdog.close()

    def _has_room(self, host: Host[T]) -> bool:
        if host.in_flight >= host.limit:
            return False
        if host.speed == FAST or self._cautious + len(self._unresolved) < self._max_cautious:
            return True
        return host.speed == UNKNOWN and not host.in_flight  # one request, to learn its speed

    def _start(self, tag: T, request: Request, host: Host[T]) -> None:
        host.in_flight += 1
        now = time.monotonic()
        lookup = self._resolve(host, now)
        if lookup is None:
            self._connect(tag, request, host, now)
        else:
            self._unresolved.append(_Unresolved(lookup, now, tag, request, host, host))

    def _connect(self, tag: T, request: Request, host: Host[T], since: float) -> None:
        """Continue with a resolved host: resolve the proxy, too, if there is one, and start the transfer."""
        if self._proxy is None or host.refusal is not None:
            self._transfer(tag, request, host, since)
            return
        now = time.monotonic()
        if not all(map(may_reach_text, host.addresses)):
            self._started(tag)
            self._fail_unsent(tag, host, since, error_codes.BLOCKED_ADDRESS)
        elif self._proxy.wait(host, now):
            self._withdraw(tag, host, self.withdrawal_code)
        elif (lookup := self._resolve(self._proxy.host, now)) is not None:
            self._unresolved.append(_Unresolved(lookup, since, tag, request, host, self._proxy.host))
        else:
            self._proxy.note_start(host, now, self._connect_seconds)
            self._transfer(tag, request, host, since)

    def _resolve(self, host: Host[T], now: float) -> Lookup | None:
        """None if the host's addresses are known; otherwise the lookup to wait for."""
        # From half of the time on, the resolver starts the next lookup in the background.
        if host.is_address or (host.answer is not None and now - host.answer.at < self._resolver.fresh_seconds / 2):
            return None
        lookup = self._resolver.lookup(host.name)
        return None if self._use(lookup, host, now) else lookup

    def _use(self, lookup: Lookup, host: Host[T], now: float) -> bool:
        answer = lookup.usable(now, self._resolver.fresh_seconds, self._settings.dns_max_age.total_seconds())
        if answer is not None:
            host.use(answer)
        return answer is not None

    def _transfer(self, tag: T, request: Request, host: Host[T], since: float) -> None:
        self._started(tag)
        if host.refusal is not None:
            self._fail_unsent(tag, host, since, host.refusal)
            return
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        try:
            transfer.load(tag, request, host, since)
        except (pycurl.error, ValueError):
            transfer.handle.close()
            host.in_flight -= 1
            self._unsent.append((tag, Response(error_codes.INVALID_REQUEST, 0)))
            return
        if not self._running:
            self._polled_at = since
        transfer.cautious = host.speed != FAST
        self._cautious += transfer.cautious
        self._running[transfer.handle] = transfer
        self._multi.add_handle(transfer.handle)

    def _new_transfer(self) -> Transfer[T]:
        return Transfer(self._settings, self._watchdog, self._proxy, trace=self._trace)

    def _start_resolved(self) -> None:
        now = time.monotonic()
        pending, self._unresolved = self._unresolved, []
        for item in pending:
            lookup, host = item.lookup, item.host
            if self._use(lookup, item.resolved, now):
                # The time that the lookup has waited for a thread does not count towards the request's timeout.
                started = min(max(item.since, lookup.started_at), now)
                self._connect(item.tag, item.request, host, started)
            elif self._proxy is not None and item.resolved is self._proxy.host:
                if not lookup.failed(now, self._connect_seconds) and now - item.since < self._max_lookup_seconds:
                    self._unresolved.append(item)
                    continue
                self._proxy.note_failure(None, error_codes.PROXY_UNREACHABLE, item.since)
                self._withdraw(item.tag, host, error_codes.PROXY_UNREACHABLE)
            elif self._is_dns_error(lookup, now):
                self._started(item.tag)
                self._fail_unsent(item.tag, host, item.since, error_codes.DNS_ERROR)
                if not lookup.denied:
                    host.note_unresolved()
            elif lookup.failed(now, self._connect_seconds) or now - item.since >= self._max_lookup_seconds:
                host.note_unresolved()
                self._withdraw(item.tag, host, error_codes.DNS_ERROR)
            else:
                self._unresolved.append(item)
                continue
            self._start_queued(host)

    def _is_dns_error(self, lookup: Lookup, now: float) -> bool:
        """Whether the name cannot be resolved, for which the hub's own resolver is not to blame."""
        return lookup.denied or (lookup.failed(now, self._connect_seconds) and self._resolver.answers_others(lookup))

    def _is_stuck(self, lookup: Lookup, now: float) -> bool:
        """Whether a request would only wait for this lookup."""
        return not self._is_dns_error(lookup, now) and (lookup.suspect or lookup.failed(now, self._connect_seconds))

    def _withdraw(self, tag: T, host: Host[T], code: str) -> None:
        self.withdrawal_code = code
        host.in_flight -= 1
        self._withdrawn.append(tag)

    def _fail_unsent(self, tag: T, host: Host[T], since: float, code: str) -> None:
        response = Response(code, int((time.monotonic() - since) * 1000))
        host.note_response(response)
        host.in_flight -= 1
        self._unsent.append((tag, response))

    def _extend_after_gap(self) -> None:
        now = time.monotonic()
        if now - self._polled_at > LONG_GAP_SECONDS:
            for transfer in self._running.values():
                transfer.extend()
        self._polled_at = now

    def _wait(self, timeout: float) -> None:
        if not self._running:
            # Only lookups and queued requests are left; a queued request may never get its turn.
            if self._unresolved:
                self._unresolved[0].lookup.finished.wait(min(timeout, LOOKUP_SECONDS))
            return
        # libcurl may have work of its own sooner, such as data it has already read.
        milliseconds = self._multi.timeout()
        seconds = timeout if milliseconds < 0 else min(timeout, milliseconds / 1000)
        self._multi.select(min(seconds, LOOKUP_SECONDS) if self._unresolved else seconds)
        self._polled_at = time.monotonic()

    def _perform(self) -> list[tuple[T, Response]]:
        self._watchdog.turn += 1
        while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
            pass
        finished: list[tuple[T, Response]] = []
        while True:
            left, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                self._finish(handle, None, finished)
            for handle, code, _ in failed:
                self._finish(handle, code, finished)
            if not left:
                self._watchdog.turn += 1
                return finished

    def _finish(self, handle: Any, curl_code: int | None, finished: list[tuple[T, Response]]) -> None:
        transfer = self._running.pop(handle)
        self._multi.remove_handle(handle)
        response = transfer.response(curl_code)
        tag, host = transfer.tag, transfer.host
        if transfer.answer is not None:
            transfer.connects_to.libcurl_answer = transfer.answer
        self._cautious -= transfer.cautious
        self._idle.append(transfer)
        if self._proxy is not None and (code := self._proxy_failure(self._proxy, transfer, curl_code)) is not None:
            self._withdraw(tag, host, code)
        else:
            host.note_response(response)
            host.in_flight -= 1
            finished.append((tag, response))
        if host.queue:
            self._start_queued(host)

    def _proxy_failure(self, proxy: Proxy[T], transfer: Transfer[T], curl_code: int | None) -> str | None:
        """The error code, if the request was not sent because of the proxy's own trouble."""
        code = transfer.proxy_failure(curl_code)
        if code is None:
            if transfer.has_tunnelled:
                proxy.note_tunnel(transfer.host)
            return None
        return None if proxy.note_failure(transfer.host, code, transfer.started) else code

    def _start_queued(self, host: Host[T]) -> None:
        # A loop: if a request fails to start, no response would come to start the next one.
        while host.queue and self._has_room(host):
            queued = host.queue.popleft()
            self._queued -= 1
            self._start(queued.tag, queued.request, host)
        if not host.queue:
            self._hosts_with_queue.pop(host, None)


class _Unresolved(NamedTuple, Generic[T]):
    lookup: Lookup
    since: float
    tag: T
    request: Request
    host: Host[T]
    # The host, or the forward proxy.
    resolved: Host[T]


def send(request: Request, settings: HubSettings | None = None, resolver: Resolver | None = None) -> Response:
    """Send one request and wait for its response, to verify or test an endpoint."""
    settings = settings or hub()
    seconds = settings.connect_timeout.total_seconds()
    engine: Engine[None] = Engine(1, settings, resolver, max_lookup_seconds=seconds, trace=True)
    started = time.monotonic()
    try:
        engine.submit(None, request)
        while True:
            for _, response in engine.poll(0.1):
                return response
            if engine.withdraw(inf):
                return Response(engine.withdrawal_code, int((time.monotonic() - started) * 1000))
    finally:
        engine.close()
