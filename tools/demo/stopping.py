"""Ctrl-C, TERM and a closed terminal all end the demo in the same way, with everything it has started."""

from __future__ import annotations

import os
import signal
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """Someone asked for the end; the code says which signal it was."""


def hear_signals() -> None:
    """From now on, the first signal to stop raises Stopped in the main thread."""
    for number in HEARD:
        # One that is ignored stays so: that is what nohup is for.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    # A shell and make may both pass a signal on: hearing it twice must not disturb the clearing up. Someone who presses
    # Ctrl-C again means it; the hub notices that its parent is gone.
    for each in HEARD:
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    raise Stopped(128 + number)
