"""How many attempts an endpoint may have open at once, from how it has responded.

An orchestrator keeps this in memory: a new one starts with small windows, and several may together exceed a window by a
batch. The times are monotonic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# The window of an endpoint that is new or does not respond.
SMALLEST = 2
# A window grows while attempts wait no longer than this for their turn, and shrinks when they wait longer than that.
SHORT_WAIT_SECONDS = 0.1
LONG_WAIT_SECONDS = 0.4
# An attempt that takes so long, wherever the time goes, is one of an endpoint that does not respond.
SILENT_SECONDS = 5.0
# An endpoint gets at least the window that keeps its connections busy for this time, however long attempts wait in the
# hub: a busy hub would otherwise work in ever smaller batches.
BUSY_SECONDS = 0.2
# How much each result adds to the window of an endpoint that responds, until its connections are busy.
QUICK_GROWTH = 3
# Workers measure responses in whole milliseconds; 0 is less than one.
SHORTEST_SECONDS = 0.001
# The share of the newest response in the average.
NEWEST = 0.2
# The quickest time grows by this share in a second: an endpoint may become slower for good.
FORGETTING = 0.1
# The first pause between two probes of an endpoint that only fails; each further one is twice as long.
FIRST_PROBE_SECONDS = 1.0
# With more endpoints, those without open attempts and failures are forgotten.
MAX_WINDOWS = 20_000


@dataclass(slots=True)
class Window:
    """One endpoint."""

    size: float = SMALLEST
    open: int = 0
    # The time from dispatch to result of the quickest attempts.
    quickest: float = math.inf
    noted_at: float = 0.0
    # The endpoint's own response time as workers measure it, on average.
    response_seconds: float = math.inf
    shrunk_at: float = -math.inf
    # Failures since the last success.
    failures: int = 0
    # The pause between probes while the breaker is open, else 0, and the time of the next probe.
    pause: float = 0.0
    probe_at: float = 0.0

    def note_response(self, seconds: float) -> None:
        known = self.response_seconds < math.inf
        seconds = max(seconds, SHORTEST_SECONDS)
        self.response_seconds = (1 - NEWEST) * self.response_seconds + NEWEST * seconds if known else seconds

    def busy_size(self, connections: int, largest: int) -> float:
        """The window that keeps so many connections busy; 0 for an endpoint that is new or does not respond."""
        if self.response_seconds >= SILENT_SECONDS:
            return 0.0
        return min(connections * max(1.0, BUSY_SECONDS / self.response_seconds), largest)

    def note_duration(self, opened_at: float, now: float, largest: int, connections: int) -> None:
        """An attempt that was opened at `opened_at` has ended."""
        seconds = now - opened_at
        if seconds >= SILENT_SECONDS:
            self.size, self.shrunk_at = SMALLEST, now
            return
        self.quickest = min(self.quickest * (1 + FORGETTING * (now - self.noted_at)), seconds)
        self.noted_at = now
        waited = seconds - self.quickest
        busy_size = self.busy_size(connections, largest)
        if waited <= SHORT_WAIT_SECONDS or self.size < busy_size:
            self.size = min(self.size + (QUICK_GROWTH if self.size < busy_size else 1), largest)
        elif waited >= LONG_WAIT_SECONDS and opened_at >= self.shrunk_at:
            # Once for all attempts that were open at the time.
            self.size, self.shrunk_at = max(SMALLEST, busy_size, self.size * 0.75), now


class Windows:
    """The windows of all endpoints, by their callback URLs."""

    def __init__(self, largest: int, breaker_failures: int, longest_pause: float, connections: int = 1) -> None:
        """`breaker_failures`: after so many failures in a row an endpoint is only probed; 0 switches that off.

        `connections`: of a worker to one endpoint.
        """
        self._connections = connections
        self._largest = largest
        self._breaker_failures = breaker_failures
        self._longest_pause = longest_pause
        self._windows: dict[int, Window] = {}
        # The endpoint and the time of each attempt that this process has opened.
        self._opened: dict[int, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def has_open(self) -> bool:
        return bool(self._opened) or any(window.open for window in self._windows.values())

    def at(self, endpoint: int) -> Window:
        window = self._windows.get(endpoint)
        if window is None:
            window = self._windows[endpoint] = Window(size=min(SMALLEST, self._largest))
        return window

    def room(self, endpoint: int, now: float) -> int:
        """How many attempts may be opened now."""
        window = self.at(endpoint)
        if window.pause:
            return int(now >= window.probe_at and not window.open)
        return max(0, int(window.size) - window.open)

    def has_use_for(self, endpoint: int, now: float) -> bool:
        """Whether it is time to admit more: a quarter of the window is free, so that admissions come in batches."""
        return self.room(endpoint, now) >= max(1, int(self.at(endpoint).size) // 4)

    def per_second(self, endpoint: int) -> float:
        """How many attempts the endpoint takes in a second, as far as is known; 0 if it fails or does not respond."""
        window = self.at(endpoint)
        if window.pause:
            return 0.0
        if window.response_seconds == math.inf:
            return float(self._connections)
        return 0.0 if window.response_seconds >= SILENT_SECONDS else self._connections / window.response_seconds

    def probe_at(self, endpoint: int) -> float:
        """The time of the next probe; 0 while the breaker is closed."""
        window = self.at(endpoint)
        return window.probe_at if window.pause else 0.0

    def note_opened(self, endpoint: int, attempt_ids: Iterable[int], now: float) -> None:
        window = self.at(endpoint)
        for attempt_id in attempt_ids:
            if attempt_id not in self._opened:
                self._opened[attempt_id] = endpoint, now
                window.open += 1
        if window.pause:
            window.probe_at = now + window.pause
            window.pause = min(2 * window.pause, self._longest_pause)

    def note_finished(self, attempt_ids: Iterable[int], now: float) -> set[int]:
        """These attempts have a result. Returns the endpoints of those that this process has opened."""
        endpoints = set()
        for attempt_id in attempt_ids:
            endpoint, opened_at = self._opened.pop(attempt_id, (0, 0.0))
            if endpoint:
                window = self.at(endpoint)
                window.open = max(0, window.open - 1)
                window.note_duration(opened_at, now, self._largest, self._connections)
                endpoints.add(endpoint)
        return endpoints

    def note_result(self, endpoint: int, now: float, *, succeeded: bool, seconds: float | None = None) -> bool:
        """`seconds`: the response time. Returns whether this has opened or closed the breaker."""
        window = self.at(endpoint)
        if seconds is not None:
            window.note_response(seconds)
        if succeeded:
            was_open = bool(window.pause)
            window.failures, window.pause = 0, 0.0
            return was_open
        window.failures += 1
        if window.pause or not self._breaker_failures or window.failures < self._breaker_failures:
            return False
        window.size, window.pause = SMALLEST, min(FIRST_PROBE_SECONDS, self._longest_pause)
        window.probe_at = now + window.pause
        return True

    def set_open(self, counts: Mapping[int, int], forget_before: float) -> None:
        """The numbers of open attempts as the database has them: other processes open and finish attempts, too.

        Attempts that were opened before `forget_before` are forgotten: their results have gone to another process.
        """
        if len(self._windows) > MAX_WINDOWS:
            self._windows = {url: window for url, window in self._windows.items() if url in counts or window.failures}
        for window in self._windows.values():
            window.open = 0
        for endpoint, count in counts.items():
            self.at(endpoint).open = count
        self._opened = {pk: opened for pk, opened in self._opened.items() if opened[1] >= forget_before}
