"""The web server of `run_web` and `run_hub --web`.

waitress receives a whole request before one of its threads handles it, so clients that send slowly occupy a connection
but no thread. Any other WSGI server can serve webhookhub.wsgi, too.
"""

from __future__ import annotations

import select
import signal
import time
from typing import Any

from waitress import create_server, wasyncore
from waitress.channel import HTTPChannel

from webhookhub.conf import hub
from webhookhub.wsgi import Application

# Threads mostly wait: for the database, and for endpoints that are verified or tested.
THREADS = 32
# Below the usual limit of 1,024 open files.
MAX_CONNECTIONS = 900
# A longer body is kept in a temporary file while it is received.
BODY_BYTES_IN_MEMORY = 64 * 1024
# A body that is longer than a batch may be by at most this gets the API's error, which names the limit.
REFUSED_BY_THE_API = 1024 * 1024
CHECK_SECONDS = 1.0
# How long a connection may be silent.
SILENT_SECONDS = 60
# How long a connection may go without a complete request: a client that sends or reads a byte now and then is not
# silent. After the longest silence, there are as many seconds again for one request.
TRANSFER_SECONDS = 120.0


class WebServer:
    def __init__(self, application: Application, address: str) -> None:
        self._dispatchers: dict[int, Any] = {}
        self._is_stopping = False
        # When its loop last ran, by the monotonic clock; it runs at least every CHECK_SECONDS.
        self.last_turn = time.monotonic()
        self._server = create_server(
            application,
            map=self._dispatchers,
            listen=address,
            threads=THREADS,
            connection_limit=MAX_CONNECTIONS,
            inbuf_overflow=BODY_BYTES_IN_MEMORY,
            max_request_body_size=hub().api_batch_bytes + REFUSED_BY_THE_API,
            clear_untrusted_proxy_headers=False,  # webhookhub/proxies.py does
            ident=None,
            channel_timeout=SILENT_SECONDS,
        )
        self._server.channel_class = _Channel
        self._check_at = 0.0
        self._poll = _Poll(self._dispatchers)

    def run(self) -> None:
        """Serves until a TERM or INT signal; then finishes the requests that were received."""
        self.handle_signals()
        while not self._is_stopping:
            self._handle_events()
        self._drain(time.monotonic() + hub().drain.total_seconds())
        self._server.task_dispatcher.shutdown()

    def handle_signals(self) -> None:
        """From now on, a signal ends run(), even before it is called."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, *signal_and_frame: Any) -> None:
        self._is_stopping = True

    def _drain(self, until: float) -> None:
        for dispatcher in list(self._dispatchers.values()):
            if dispatcher.accepting:
                wasyncore.dispatcher.close(dispatcher)
        while self._has_requests() and time.monotonic() < until:
            self._handle_events()

    def _has_requests(self) -> bool:
        channels = [channel for channel in self._dispatchers.values() if isinstance(channel, HTTPChannel)]
        return any(channel.requests or channel.total_outbufs_len for channel in channels)

    def _handle_events(self) -> None:
        self.last_turn = time.monotonic()
        self._poll.handle_events(CHECK_SECONDS)
        if self.last_turn >= self._check_at:
            self._check_at = self.last_turn + CHECK_SECONDS
            self._close_slow_clients(self.last_turn - TRANSFER_SECONDS)

    def _close_slow_clients(self, before: float) -> None:
        for channel in list(self._dispatchers.values()):
            if isinstance(channel, _Channel) and not channel.requests and channel.handled_at < before:
                channel.handle_close()


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    """A connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # When its last request was complete and handled, or when it began, by the monotonic clock.
        self.handled_at = time.monotonic()

    def service(self) -> None:
        super().service()
        self.handled_at = time.monotonic()


class _Poll:
    """waitress's loop, which looks at every connection for every event, with a memory: it looks at the few whose state
    can have changed, which are new, had an event or have a request that is being handled."""

    def __init__(self, dispatchers: dict[int, Any]) -> None:
        self._dispatchers = dispatchers
        self._poll = select.poll()
        self._known: dict[int, Any] = {}
        self._flags: dict[int, int] = {}
        self._changing: set[int] = set()
        self._look_at_all_at = 0.0

    def handle_events(self, seconds: float) -> None:
        self._register()
        for number, flags in self._poll.poll(seconds * 1000):
            dispatcher = self._dispatchers.get(number)
            if dispatcher is not None:
                self._changing.add(number)
                wasyncore.readwrite(dispatcher, flags)

    def _register(self) -> None:
        now = time.monotonic()
        if now >= self._look_at_all_at:  # the server closes idle connections in passing
            self._look_at_all_at = now + CHECK_SECONDS
            self._changing.update(self._dispatchers)
        if self._known != self._dispatchers:
            for number in self._known.keys() - self._dispatchers.keys():
                self._set(number, 0)
                self._changing.discard(number)
            self._changing.update(number for number, _ in self._dispatchers.items() - self._known.items())
            self._known = dict(self._dispatchers)
        for number in list(self._changing):
            dispatcher = self._dispatchers[number]
            flags = (select.POLLIN | select.POLLPRI) if dispatcher.readable() else 0
            if not dispatcher.accepting and dispatcher.writable():
                flags |= select.POLLOUT
            self._set(number, flags)
            if flags == select.POLLIN | select.POLLPRI:
                self._changing.remove(number)  # it waits for its next event

    def _set(self, number: int, flags: int) -> None:
        if self._flags.get(number, 0) == flags:
            return
        self._flags[number] = flags
        if flags:
            self._poll.register(number, flags)
        else:
            self._poll.unregister(number)
