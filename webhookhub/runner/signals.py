"""TERM and INT ask a process to stop: the first lets it finish what it has begun, the second ends it at once."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from types import TracebackType
from typing import Any

from webhookhub.logs import Fact, log

HEARD = (signal.SIGTERM, signal.SIGINT)
LEAVING = b"\0"  # no signal has this number
# The same signal again so soon is no second wish: the system tells a child of its parent's death once for each thread
# that the parent had, and a terminal's signal may come by two ways.
ECHO_SECONDS = 0.5


class StopSignals:
    """While entered, signals are heard; afterwards whatever was installed before is back.

    They are heard by a thread of their own, through the interpreter's wake-up pipe: a handler in Python would wait for
    the call that the main thread is in, and a database that does not answer can make that long. With `bound`, the
    process ends that many seconds after the first signal, whatever it is doing.
    """

    def __init__(self, bound: float | None = None) -> None:
        self.requested = False
        self._bound = bound
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        self._heard, self._wake_up = os.pipe()
        self._stopped, self._stop = os.pipe()
        os.set_blocking(self._wake_up, False)
        self._wake_up_before = signal.set_wakeup_fd(self._wake_up, warn_on_full_buffer=False)
        for number in HEARD:
            self._before[number] = signal.signal(number, lambda number, frame: None)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wake_up_before)
        os.write(self._wake_up, LEAVING)
        self._thread.join()
        for end in (self._heard, self._wake_up, self._stopped, self._stop):
            os.close(end)

    def wait(self, seconds: float, also: int | None = None) -> None:
        """Wait, but not beyond a request to stop, nor until `also` can be read."""
        ends = [self._stopped] if also is None else [self._stopped, also]
        select.select(ends, [], [], max(0.0, seconds))

    def pause(self, seconds: float) -> None:
        """Wait although a stop was requested: for the drain itself."""
        time.sleep(seconds)

    def _listen(self) -> None:
        until: float | None = None
        first, first_at = 0, 0.0
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._heard], [], [], left)[0]:
                log(Fact.PROCESS_FAILED, error=f"not finished {self._bound:g} s after it was told to stop: leaving")
                os._exit(1)
            for number in os.read(self._heard, 16):
                if number == LEAVING[0]:
                    return
                if number not in HEARD:
                    continue
                if self.requested:
                    if number == first and time.monotonic() - first_at < ECHO_SECONDS:
                        continue
                    os._exit(128 + number)
                first, first_at = number, time.monotonic()
                self.requested = True
                os.write(self._stop, b"!")
                until = None if self._bound is None else time.monotonic() + self._bound
