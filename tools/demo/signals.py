"""Ctrl-C, TERM and a closed terminal end the demo and all processes that it has started."""

from __future__ import annotations

import os
import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """Raised by a signal; the exit code is 128 plus its number."""


def install() -> None:
    """Makes the first signal raise Stopped in the main thread."""
    for number in SIGNALS:
        # nohup ignores SIGHUP; keep that.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    # A shell and make may both pass a signal on; the second must not interrupt the clean-up. A second Ctrl-C exits at
    # once, and the hub stops because its parent is gone.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    raise Stopped(128 + number)
