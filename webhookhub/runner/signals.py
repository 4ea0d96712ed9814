"""TERM and INT stop a process: the first lets it finish its work, the second ends it at once."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from types import TracebackType
from typing import Any

from webhookhub.logs import Log, log

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXIT = b"\0"  # no signal has this number
# The same signal within this time is not a second request: the system sends a child one signal for each thread of its
# dead parent, and a terminal's signal may arrive twice.
ECHO_SECONDS = 0.5


class StopSignals:
    """A context manager that handles the signals and restores the previous handlers at its end.

    A separate thread receives them through the interpreter's wake-up pipe: a Python handler would wait for the main
    thread's current call, which may take long when the database does not respond. With `bound`, the process ends that
    many seconds after the first signal, whatever it is doing.
    """

    def __init__(self, bound: float | None = None) -> None:
        self.requested = False
        self._bound = bound
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        self._received, self._wake_up = os.pipe()
        self._stopped, self._stop = os.pipe()
        os.set_blocking(self._wake_up, False)
        self._wake_up_before = signal.set_wakeup_fd(self._wake_up, warn_on_full_buffer=False)
        for signum in STOP_SIGNALS:
            self._before[signum] = signal.signal(signum, lambda signum, frame: None)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._wake_up_before)
        os.write(self._wake_up, EXIT)
        self._thread.join()
        for end in (self._received, self._wake_up, self._stopped, self._stop):
            os.close(end)

    def fileno(self) -> int:
        """Becomes readable when a stop is requested."""
        return self._stopped

    def pause(self, seconds: float) -> None:
        """Waits even if a stop was requested: for the drain itself."""
        time.sleep(seconds)

    def _listen(self) -> None:
        until: float | None = None
        first = _FirstSignal()
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._received], [], [], left)[0]:
                log(Log.PROCESS_FAILED, error=f"not finished {self._bound:g} s after the stop signal: exiting")
                os._exit(1)
            for signum in os.read(self._received, 16):
                if signum == EXIT[0]:
                    return
                if first.is_first(signum):
                    self.requested = True
                    os.write(self._stop, b"!")
                    until = None if self._bound is None else time.monotonic() + self._bound


class SupervisorSignals:
    """The same for a supervisor, without a thread, because it forks: signals are handled in wait().

    The end of a child also ends the wait.
    """

    def __init__(self) -> None:
        self.requested = False
        self._first = _FirstSignal()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SupervisorSignals:
        self._received, self._wake_up = os.pipe()
        os.set_blocking(self._wake_up, False)
        self._wake_up_before = signal.set_wakeup_fd(self._wake_up, warn_on_full_buffer=False)
        for signum in (*STOP_SIGNALS, signal.SIGCHLD):
            self._before[signum] = signal.signal(signum, lambda signum, frame: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._wake_up_before)
        os.close(self._received)
        os.close(self._wake_up)

    def wait(self, seconds: float) -> None:
        """Waits until a signal arrives or the time is over."""
        if select.select([self._received], [], [], max(0.0, seconds))[0]:
            for signum in os.read(self._received, 16):
                self.requested |= self._first.is_first(signum)


class _FirstSignal:
    def __init__(self) -> None:
        self._number, self._at = 0, 0.0

    def is_first(self, signum: int) -> bool:
        """Whether this is the first stop signal. Ends the process at the second one."""
        if signum not in STOP_SIGNALS:
            return False
        if not self._number:
            self._number, self._at = signum, time.monotonic()
            return True
        if signum == self._number and time.monotonic() - self._at < ECHO_SECONDS:
            return False
        os._exit(128 + signum)
