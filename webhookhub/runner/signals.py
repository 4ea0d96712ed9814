"""TERM and INT ask a process to stop: the first lets it finish what it has begun, the second ends it at once."""

from __future__ import annotations

import os
import select
import signal
import time
from types import FrameType, TracebackType
from typing import Any


class StopSignals:
    """While entered, signals are heard; afterwards whatever was installed before is back.

    A pipe and not a threading.Event: an event's lock may be held by the very code a signal handler interrupts.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        self._read, self._write = os.pipe()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float) -> None:
        """Wait, but not beyond a request to stop."""
        if not self.requested:
            select.select([self._read], [], [], max(0.0, seconds))

    def pause(self, seconds: float) -> None:
        """Wait although a stop was requested: for the drain itself."""
        time.sleep(seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            os._exit(128 + number)
        self.requested = True
        os.write(self._write, b"!")
